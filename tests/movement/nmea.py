"""Writes what a receiver would have said along a way: NMEA 0183 sentences, for `gpsfake` to play to a real gpsd."""

from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from operator import xor

from roamcast.model.space import Earth
from roamcast.movement.fix import Fix, heading_of

KNOTS_PER_MPS = 3600 / 1852


def sentence(body: str) -> str:
    return f"${body}*{reduce(xor, body.encode()):02X}\r\n"


def angle(degrees: float, width: int, signs: str) -> str:
    """Degrees and minutes in one number, and which side of zero: `6010.200000,N`."""
    minutes = round(abs(degrees) * 60, 6)
    return f"{int(minutes // 60):0{width}d}{minutes % 60:09.6f},{signs[degrees < 0]}"


def report(fix: Fix, speed_mps: float, heading_deg: float) -> str:
    """One second of a receiver: RMC with motion and date, GGA with the quality, GSA with the mode."""
    longitude, latitude = fix.position
    when = datetime.fromtimestamp(fix.at_us / 1e6, UTC)
    clock, date = f"{when:%H%M%S}.{when.microsecond // 10_000:02d}", f"{when:%d%m%y}"
    place = f"{angle(latitude, 2, 'NS')},{angle(longitude, 3, 'EW')}"
    knots = speed_mps * KNOTS_PER_MPS
    return (
        sentence(f"GPRMC,{clock},A,{place},{knots:.3f},{heading_deg:.2f},{date},,,A")
        + sentence(f"GPGGA,{clock},{place},1,08,0.9,12.0,M,18.0,M,,")
        + sentence("GPGSA,A,3,04,05,09,12,24,25,29,31,,,,,1.6,0.9,1.3")
    )


def no_fix(at_us: int) -> str:
    """The same while the receiver sees no sky."""
    when = datetime.fromtimestamp(at_us / 1e6, UTC)
    return (
        sentence(f"GPRMC,{when:%H%M%S}.00,V,,,,,,,{when:%d%m%y},,,N")
        + sentence(f"GPGGA,{when:%H%M%S}.00,,,,,0,00,99.9,,M,,M,,")
        + sentence("GPGSA,A,1,,,,,,,,,,,,,99.9,99.9,99.9")
    )


def log_of(fixes: list[Fix]) -> str:
    """A whole way, with speed and heading from each fix to the next."""
    earth, lines = Earth(), list[str]()
    for one, other in pairwise(fixes):
        east, north = earth.offset_m(one.point, other.point)
        speed_mps = earth.distance_m(one.point, other.point) / ((other.at_us - one.at_us) / 1e6)
        lines.append(report(one, speed_mps, heading_of(east, north)))
    return "".join(lines)
