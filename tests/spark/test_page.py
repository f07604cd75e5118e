"""The audit page as people see it: in a browser, light and dark, on a phone; times, units, and what is escaped."""

import json
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec import structs

from roamcast.spark.ingest import Summary
from roamcast.spark.page import page, what_if_page
from roamcast.spark.quality import Clock, Gap, Quality
from roamcast.spark.report import Audit, Example, Line
from roamcast.spark.tables import BadPipeline
from roamcast.spark.what_if import Difference, WhatIf
from roamcast.spark.wishes import SubscriptionRule, Wishes
from tests.studio.town import CHROMIUM, FLAGS

if TYPE_CHECKING:
    import playwright.sync_api as playwright

MORNING_US = 1_750_000_000_000_000
"""15 June 2025, 15:06:40 UTC."""
SLICE_US = 150_000_000
SUMMARY = Summary(12, 90_210, 3, 1, 1, 7, ("v2/moves/a-1.parquet: damaged, not a whole Parquet file",), 2)


def line(value: str, x: float | None, y: float | None, at_us: int | None, expected: int, missed: int) -> Line:
    counts = (expected, expected - missed, missed, missed // 3, missed // 5)
    return Line(value, x, y, at_us, *counts, 0, 1_400, 22_600, 310_000)


def example_audit(space: str = "earth") -> Audit:
    """A town on Earth, or a square in the plane, in which a corner hears little."""
    rng = random.Random(8)
    west, south, size = (8.53, 47.37, 0.002) if space == "earth" else (0.0, 0.0, 60.0)
    places, times = [], []
    for _ in range(120):
        column, row = rng.randrange(16), rng.randrange(16)
        expected = rng.randrange(1, 80)
        missed = round(expected * max(0.0, 1 - math.hypot(column, row) / 9))
        places.append(line(f"{column}/{row}", west + column * size, south + row * size, None, expected, missed))
    for n in range(48):
        expected = round(60 + 50 * math.sin(n / 7))
        times.append(line(str(n), None, None, MORNING_US + n * SLICE_US, expected, expected * (n > 30) // 4))
    delays = [
        line(str(at), None, None, at, count, 0) for at, count in ((0, 500), (420, 20), (3_100, 60), (42_000, 9))
    ]
    examples = tuple(
        Example(
            *("missed", f"car-{n}-000{n}", f"car-{n}\0town/#", f"car-{n}", "town/warning/with/a/long/subject"),
            *(MORNING_US, MORNING_US + 5, None, places[n].x, places[n].y),
        )
        for n in range(9)
    )
    total = line("all", None, None, None, 1_032, 35)
    quality = Quality(SUMMARY, (Gap("car-3", 7, 900),), (Clock("car-9", 14, -2_900_000, -3_000_000, 4),))
    subjects = (line("town/warning", None, None, None, 800, 30), line("<b>town</b>", None, None, None, 232, 5))
    ends = (MORNING_US, MORNING_US + 48 * SLICE_US, 100_000)
    by = (tuple(places), tuple(times), tuple(delays))
    return Audit("out/town", space, *ends, total, total.rate, subjects, *by, examples, quality)


def ways(audit: Audit) -> Any:
    rng = np.random.default_rng(1)
    corners = np.array([(each.x, each.y) for each in audit.places])
    return np.stack([corners, corners + rng.normal(0, np.ptp(corners[:, 0]) / 20, corners.shape)], 1)


def test_times_are_of_the_zone_of_the_data() -> None:
    """By longitude, or as named; the zone is in the page."""
    shown = page(example_audit())
    assert "2025-06-15 16:06:40.000+01:00" in shown
    assert "time of day, UTC+01:00" in shown
    assert "time of day, Asia/Tokyo" in page(example_audit(), zone="Asia/Tokyo")
    with pytest.raises(BadPipeline, match="--zone is 'Atlantis/Nowhere'"):
        page(example_audit(), zone="Atlantis/Nowhere")


def test_names_are_escaped_and_nothing_is_loaded() -> None:
    shown = page(structs.replace(example_audit(), journal="<script>alert()</script>"))
    assert "<script" not in shown
    assert "&lt;b&gt;town" in shown
    assert not re.search(r'(?:src|href)="(?!data:|#)', shown.replace("xlink:href", "href"))


def test_axes_have_units_and_the_map_a_scale() -> None:
    for space, units in (("earth", "longitude, °"), ("plane", "east, m")):
        shown = page(example_audit(space), ways(example_audit(space)))
        assert units in shown
        assert re.search(r">\d+ (?:m|km)</text>", shown)
        assert shown.count("<svg") == 3


def test_doubts_about_the_data_are_shown_with_reasons() -> None:
    shown = page(example_audit())
    for said in ("records missing", "car-3", "damaged, not a whole Parquet file", "-2.90 s", "came late"):
        assert said in shown
    clean = Quality(Summary(1, 10, 0, 0, 0, 0, ()), (), ())
    assert "Nothing is missing" in page(structs.replace(example_audit(), quality=clean))


def test_delays_that_no_clock_tells_apart_are_at_once() -> None:
    """And the page says what that means, and how many there are."""
    shown = page(example_audit())
    assert ">0 µs<" not in shown
    assert re.search(r"at once<b>50\.2%</b>", shown)


def test_what_if_names_changes_and_escapes_names() -> None:
    """P7: what is changed, by whom, and who gains and loses; of the same template as the audit."""
    lines = (Difference("<i>car-1</i>", 10, 13, 4, 1), Difference("car-2", 5, 5, 0, 0))
    found = WhatIf("out/town", Difference("all", 15, 18, 4, 1), (lines[1],), lines)
    wishes = Wishes((SubscriptionRule(of="car-1*", near=300.0),))
    shown = what_if_page(found, wishes)
    assert "{&#34;near&#34;:300.0,&#34;of&#34;:&#34;car-1*&#34;}" in shown
    assert "<i>" not in shown
    assert shown.count("<svg") == 1
    assert "prefers-color-scheme: dark" in shown


def test_streets_of_a_file_are_drawn(tmp_path: Path) -> None:
    file = tmp_path / "streets.geojson"
    way = {"type": "LineString", "coordinates": [[8.53, 47.37], [8.55, 47.39]]}
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": way}]}))
    assert "Grey: streets" in page(example_audit(), streets=file)
    file.write_text("{}")
    with pytest.raises(BadPipeline, match="not a GeoJSON file"):
        page(example_audit(), streets=file)


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright.Browser"]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: tools/clients.sh does that where it can")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_a_phone_and_a_desk_by_day_and_night(
    browser: "playwright.Browser", tmp_path: Path, scheme: Any, width: int
) -> None:
    file = tmp_path / "index.html"
    audit = example_audit()
    file.write_text(page(audit, ways(audit)))
    shown = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown.goto(file.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = (
        shown.evaluate(f"getComputedStyle({where}).{what}")
        for where, what in (("document.querySelector('svg text')", "fill"), ("document.body", "backgroundColor"))
    )
    assert abs(brightness(ink) - brightness(paper)) > 80
    assert (brightness(paper) < 60) == (scheme == "dark")
    shown.close()


def brightness(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
