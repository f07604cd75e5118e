"""GTFS-realtime: the vehicle positions of feed messages that were saved, one message a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roamcast.importer.fixes import BadImport, Found, Reading, batches_of_rows
from roamcast.model.space import Earth


def read_gtfs(path: Path, reading: Reading) -> Found:
    feed = feed_of(path)
    return Found(Earth(), batches_of_rows(rows_of(feed, reading.times.start_us)))


def feed_of(path: Path) -> Any:
    try:
        from google.protobuf.message import DecodeError
        from google.transit import gtfs_realtime_pb2
    except ImportError:
        raise BadImport(
            "GTFS-realtime needs the package gtfs-realtime-bindings: pip install 'roamcast[import]'"
        ) from None
    feed = gtfs_realtime_pb2.FeedMessage()
    try:
        feed.ParseFromString(path.read_bytes())
    except DecodeError as problem:
        raise BadImport(
            f"{path}: not a GTFS-realtime feed message ({problem}); a file holds one message, as "
            "the feed's address serves it"
        ) from None
    return feed


def rows_of(feed: Any, start_us: int) -> Iterator[tuple[Any, ...]]:
    """A vehicle that does not say when it was there was there when the feed was made."""
    for entity in feed.entity:
        vehicle = entity.vehicle
        if not entity.HasField("vehicle") or not vehicle.HasField("position"):
            continue
        position = vehicle.position
        seconds = vehicle.timestamp or feed.header.timestamp
        at_us = seconds * 1_000_000 + start_us if seconds else None
        speed_mps = position.speed if position.HasField("speed") else None
        bearing = position.bearing if position.HasField("bearing") else None
        host = vehicle.vehicle.id or vehicle.vehicle.label or entity.id
        yield host, at_us, position.longitude, position.latitude, speed_mps, bearing, None
