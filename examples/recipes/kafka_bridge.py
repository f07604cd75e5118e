"""Events of a roamcast broker into a Kafka topic, at least once.

    pip install . kafka-python          # in a clone of roamcast
    python examples/recipes/kafka_bridge.py mqtt://127.0.0.1:1883 'alerts/#' 'severity >= 3' kafka.example:9092 alerts

The session keeps its name, so events wait at the broker while the bridge is stopped. An event counts as received when
the next one is asked for, so an event that Kafka has not confirmed comes again.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

from roamcast import Client
from roamcast.client import ClientEvent

Headers = list[tuple[str, bytes]]
Send = Callable[[bytes, bytes, Headers], Awaitable[object]]


def record_of(event: ClientEvent) -> tuple[bytes, bytes, Headers]:
    """Key, value and headers. Events of one MQTT topic share a key, so Kafka keeps their order."""
    return event.subject.encode(), event.payload, [("event-id", (event.id or "").encode())]


async def bridge(client: Client, topic: str, wanted: str | None, send: Send) -> None:
    await client.subscribe(topic, wanted, qos=1)
    async for event in client.events():  # also those that waited for an earlier run
        await send(*record_of(event))


async def main(broker: str, topic: str, wanted: str, kafka: str, kafka_topic: str) -> None:
    from kafka import KafkaProducer  # type: ignore[import-not-found,import-untyped,unused-ignore]

    producer = KafkaProducer(bootstrap_servers=kafka, acks="all")

    async def send(key: bytes, value: bytes, headers: Headers) -> None:
        future = producer.send(kafka_topic, key=key, value=value, headers=headers)
        await asyncio.to_thread(future.get, 30)

    async with Client("kafka-bridge", [broker], resume=True) as client:
        await bridge(client, topic, wanted or None, send)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit("give a broker, a topic filter, a filter or '', a Kafka server and its topic")
    asyncio.run(main(*sys.argv[1:6]))
