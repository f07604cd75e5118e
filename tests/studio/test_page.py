"""The studio's page in a real browser, at real brokers with unmodified MQTT clients (L5)."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from roamcast.server.security.passwords import set_password
from tests.ports import free_ports
from tests.studio.town import CHROMIUM, FLAGS, PATIENCE_S, Town, tile_server

if TYPE_CHECKING:
    import playwright.sync_api as playwright
else:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: tools/clients.sh does that where it can"),
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.xdist_group("studio"),
]

Page = playwright.Page
WIDE: playwright.ViewportSize = {"width": 1440, "height": 900}
PHONE: playwright.ViewportSize = {"width": 390, "height": 844}
PLACES = {"b1": [-300.0, 0.0], "b2": [300.0, 0.0]}
CIRCLE = '{"circle_m": 200}'


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Two brokers that are linked; the page comes from b2, which names b1."""
    town = Town(tmp_path_factory.mktemp("town"))
    (port,) = free_ports(1)
    town.start("b1", origins=(f"http://127.0.0.1:{port}",), links={"port": 0}, studio={"place": PLACES["b1"]})
    peer = {"name": "b1", "host": "127.0.0.1", "port": town.port("b1", "links")}
    town.start("b2", port, links={"peers": [peer]}, studio={"place": PLACES["b2"], "others": [town.http("b1")]})
    yield town
    town.close()


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright.Browser"]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def context(browser: "playwright.Browser") -> Iterator["playwright.BrowserContext"]:
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_S * 1_000)
    playwright.expect.set_options(timeout=PATIENCE_S * 1_000)
    yield context
    context.close()


@pytest.fixture
def page(town: Town, context: "playwright.BrowserContext") -> Iterator[Page]:
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{town.http('b2')}/studio/")
    page.click("#intro-close")
    playwright.expect(page.locator("#status")).to_have_text("2 brokers")
    yield page
    assert wrong == []


def find(page: Page, name: str) -> None:
    """Chooses an entity with the keyboard alone."""
    page.keyboard.press("Escape")
    page.click("#tab-find")
    page.fill("#find-input", name)
    playwright.expect(page.locator("#find-list [role=option]").first).to_have_attribute("data-entity", name)
    page.press("#find-input", "Enter")


CAR, AMBULANCE = (0x3C, 0x6F, 0xC4), (0xD2, 0x38, 0x2F)
MIDDLE = """colour => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
    const canvas = document.querySelector("canvas.scene");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let [x, y, count] = [0, 0, 0];
    for (let at = 0; at < data.length; at += 4) {
        if (colour.some((part, index) => data[at + index] !== part)) continue;
        x += (at / 4) % canvas.width;
        y += Math.floor(at / 4 / canvas.width);
        count += 1;
    }
    done([x / count, y / count]);
})))"""


def distance_px(page: Page, one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Between what is drawn in two colours."""
    return math.dist(page.evaluate(MIDDLE, one), page.evaluate(MIDDLE, other))


def test_an_entity_appears_with_its_home_and_moves(town: Town, page: Page, tmp_path: Path) -> None:
    with town.client("mover-1") as mover:
        mover.report(10, 20, attributes={"type": "car"})
        find(page, "mover-1")
        details = page.locator("#details")
        playwright.expect(details).to_contain_text("10 m, 20 m")
        playwright.expect(details.locator("dd").first).to_have_text("b1")
        mover.report(-40, 60)
        playwright.expect(details).to_contain_text("-40 m, 60 m")
        page.screenshot(path=tmp_path / "entity.png")
    playwright.expect(page.locator("#find-list [data-entity=mover-1]")).to_have_count(0)


def test_details_show_what_a_client_subscribed_to(town: Town, page: Page) -> None:
    with town.client("reader-1") as reader:
        reader.report(0, 0)
        reader.subscribe("market/#", filter="price < 5 AND near(position, 150)")
        find(page, "reader-1")
        details = page.locator("#details")
        playwright.expect(details).to_contain_text("market/#")
        playwright.expect(details).to_contain_text("within 150 m")


def test_an_event_is_logged_and_its_way_and_whom_it_missed_explained(town: Town, page: Page, tmp_path: Path) -> None:
    with town.client("source-2") as source, town.client("close-2", "b2") as close, town.client("far-2") as far:
        source.report(0, 0, attributes={"type": "ambulance"})
        for client, x in ((close, 100), (far, 900)):
            client.report(x, 0, attributes={"type": "car"})
            client.subscribe("siren/2")
        source.publish("siren/2", {"lane": 3}, audience=CIRCLE)
        assert close.next() == ("siren/2", {"lane": 3})
        row = page.locator("#log li", has_text="siren/2")
        playwright.expect(row.locator("b")).to_have_text("1")
        row.locator("button").click()
        details = page.locator("#details")
        hops = details.locator("[data-hop]")
        playwright.expect(hops).to_have_count(2)
        assert [hop.get_attribute("data-hop") for hop in hops.all()] == ["b1", "b2"]
        playwright.expect(hops.nth(1)).to_contain_text("close-2")
        missed = details.locator("[data-missed=far-2]")
        playwright.expect(missed).to_contain_text("900 m")
        playwright.expect(details.locator(".payload")).to_contain_text('"lane": 3')
        page.screenshot(path=tmp_path / "way.png")


def test_a_chosen_event_is_shown_with_positions_as_of_then(town: Town, page: Page, tmp_path: Path) -> None:
    with town.client("source-13") as source, town.client("close-13", "b2") as close:
        source.report(-250, 10, attributes={"type": "ambulance"})
        close.report(-220, 10, attributes={"type": "car"})
        close.subscribe("siren/13")
        source.publish("siren/13", audience=CIRCLE)
        close.next()
        find(page, "close-13")
        close.report(280, -40)
        playwright.expect(page.locator("#details")).to_contain_text("280 m, -40 m")
        page.click("#tab-live")
        page.locator("#log li", has_text="siren/13").locator("button").click()
        moment = page.locator("#moment")
        playwright.expect(moment).to_contain_text("Positions as of the event")
        page.screenshot(path=tmp_path / "then.png")
        # 30 m then, and 530 m now.
        then = distance_px(page, CAR, AMBULANCE)
        page.click("#moment-turn")
        playwright.expect(moment).to_contain_text("Positions of now")
        assert distance_px(page, CAR, AMBULANCE) > 8 * then
        page.keyboard.press("Escape")
        playwright.expect(moment).to_be_hidden()


def test_a_filter_is_tried_while_it_is_typed(town: Town, page: Page) -> None:
    with town.client("bus-3") as bus, town.client("bus-4", "b2") as other, town.client("tree-3") as tree:
        for client, kind in ((bus, "bus"), (other, "bus"), (tree, "tree")):
            client.report(0, 0, attributes={"type": kind})
        page.click("#tab-try")
        result = page.locator("#try-result")
        page.locator("#try-input").press_sequentially("type = 'bus'")
        playwright.expect(result).to_contain_text("Entities that it accepts: 2")
        playwright.expect(result.get_by_role("button", name="bus-4")).to_be_visible()
        playwright.expect(result.get_by_role("button", name="tree-3")).to_have_count(0)


def test_the_viewer_chooses_who_reads_in_a_filter(town: Town, page: Page) -> None:
    with town.client("bus-14") as bus, town.client("car-14", "b2") as car:
        bus.report(-200, 0, attributes={"type": "bus"})
        car.report(-180, 0, attributes={"type": "car", "budget": 7})
        bus.publish("stop/14", {"position": [-190, 0], "price": 5})
        page.click("#tab-try")
        result = page.locator("#try-result")
        page.fill("#try-input", "near(position, 100) AND price < me.budget")
        playwright.expect(result).to_contain_text("Recent events that it accepts: 0")
        page.fill("#try-me", "car-14")
        playwright.expect(result).to_contain_text("Recent events that it accepts: 1")
        page.fill("#try-input", "near(position, 100)")
        playwright.expect(result).to_contain_text("Entities that it accepts: 2")
        page.click("#try-pick")
        # Far from both: a corner of the map.
        page.locator("#map").click(position={"x": 40, "y": 40})
        playwright.expect(page.locator("#try-me")).to_have_value("a place on the map")
        playwright.expect(result).to_contain_text("Entities that it accepts: 0")


def test_a_filter_that_is_wrong_is_shown_where(page: Page) -> None:
    page.click("#tab-try")
    page.fill("#try-input", "speed > ")
    problem = page.locator("#try-result .message")
    playwright.expect(problem).to_contain_text("column")
    playwright.expect(problem.locator("pre")).to_contain_text("↑")


def test_what_the_page_publishes_reaches_a_client_and_the_other_way(town: Town, page: Page) -> None:
    with town.client("peer-5") as peer:
        peer.report(0, 0)
        peer.subscribe("note/5")
        page.click("#tab-talk")
        page.select_option("#talk-broker", label="b1")
        page.fill("#talk-name", "visitor-5")
        page.click("#talk-connect")
        playwright.expect(page.locator("#talk-state")).to_have_text("Connected as visitor-5")
        page.fill("#publish-topic", "note/5")
        page.fill("#publish-payload", '{"text": "hello"}')
        page.click("#publish-form button")
        assert peer.next() == ("note/5", {"text": "hello"})
        page.fill("#subscribe-topic", "answer/5")
        page.fill("#subscribe-filter", "n > 1")
        page.click("#subscribe-form button")
        playwright.expect(page.locator("#subscribe-outcome")).to_have_text("Subscribed to answer/5.")
        peer.publish("answer/5", {"n": 1})
        peer.publish("answer/5", {"n": 2})
        playwright.expect(page.locator("#received li").first).to_contain_text('{"n": 2}')
        playwright.expect(page.locator("#received li")).to_have_count(1)


def test_what_the_broker_refuses_is_told_in_its_words(page: Page) -> None:
    page.click("#tab-talk")
    page.fill("#talk-name", "visitor-6")
    page.click("#talk-connect")
    playwright.expect(page.locator("#talk-state")).to_have_text("Connected as visitor-6")
    page.fill("#subscribe-filter", "speed >")
    page.click("#subscribe-form button")
    playwright.expect(page.locator("#subscribe-outcome")).to_contain_text("filter")
    page.fill("#publish-payload", "{")
    page.click("#publish-form button")
    playwright.expect(page.locator("#publish-outcome")).to_contain_text("not JSON")


def test_a_publication_that_ends_the_connection_is_given_up_with_its_reason(town: Town, page: Page) -> None:
    page.click("#tab-talk")
    page.fill("#talk-name", "visitor-15")
    page.click("#talk-connect")
    state = page.locator("#talk-state")
    playwright.expect(state).to_have_text("Connected as visitor-15")
    page.fill("#publish-topic", "no/#/topic")
    page.click("#publish-form button")
    why = "The broker ended the connection: a topic name contains a wildcard"
    playwright.expect(page.locator("#publish-outcome")).to_have_text(why)
    playwright.expect(state).to_have_text(why)
    playwright.expect(page.locator("#talk-connect")).to_have_text("Connect")
    page.click("#talk-connect")
    playwright.expect(state).to_have_text("Connected as visitor-15")
    page.fill("#publish-topic", "yes/15")
    page.fill("#publish-payload", f'{{"text": "{"x" * 1_100_000}"}}')
    page.click("#publish-form button")
    playwright.expect(page.locator("#publish-outcome")).to_contain_text("the broker takes 1,048,576")
    playwright.expect(state).to_have_text("Connected as visitor-15")


def test_who_is_not_let_in_is_told_why_and_not_tried_again(
    town: Town, context: "playwright.BrowserContext", tmp_path: Path
) -> None:
    set_password(tmp_path / "passwords", "guard", "secret")
    rules = [{"publish": ["#"], "subscribe": ["#"]}]
    town.start("b4", security={"passwords": str(tmp_path / "passwords"), "rules": rules, "anonymous": True})
    page = context.new_page()
    page.goto(f"{town.http('b4')}/studio/")
    page.click("#tab-talk")
    page.click("#panel-talk summary")
    page.fill("#panel-talk [autocomplete=username]", "guard")
    page.fill("#panel-talk [type=password]", "wrong")
    page.click("#talk-connect")
    playwright.expect(page.locator("#talk-state")).to_contain_text("The broker did not let you in: ")
    playwright.expect(page.locator("#talk-connect")).to_have_text("Connect")
    town.stop("b4")


def test_a_visitor_places_itself_on_the_map_and_hears_only_what_is_near(town: Town, page: Page) -> None:
    with town.client("crier-7") as crier:
        crier.report(0, 0, attributes={"type": "person"})
        page.click("#tab-talk")
        page.fill("#talk-name", "visitor-7")
        page.click("#talk-connect")
        playwright.expect(page.locator("#talk-state")).to_have_text("Connected as visitor-7")
        page.click("#talk-place")
        page.locator("#map").click(position={"x": 300, "y": 300})
        playwright.expect(page.locator("#talk-where")).to_contain_text("You are at")
        page.fill("#subscribe-topic", "cry/7")
        page.fill("#subscribe-near", "100")
        page.click("#subscribe-form button")
        playwright.expect(page.locator("#subscribe-outcome")).to_have_text("Subscribed to cry/7.")
        told = page.locator("#talk-where").inner_text()
        x, y = (float(number) for number in re.findall(r"-?\d+", told)[:2])
        crier.publish("cry/7", {"n": 1, "position": [x + 5_000, y]})
        crier.publish("cry/7", {"n": 2, "position": [x + 50, y]})
        playwright.expect(page.locator("#received li").first).to_contain_text('"n": 2')
        find(page, "visitor-7")
        playwright.expect(page.locator("#details")).to_contain_text("person")


def test_a_client_that_roams_is_handed_over(town: Town, page: Page) -> None:
    with town.client("roamer-8", kept_s=60) as roamer:
        roamer.report(-200, 0, attributes={"type": "car"})
        find(page, "roamer-8")
        playwright.expect(page.locator("#details dd").first).to_have_text("b1")
    with town.client("roamer-8", "b2", clean=False) as roamer:
        roamer.report(200, 0)
        playwright.expect(page.locator("#details dd").first).to_have_text("b2")
        page.click("#tab-live")
        playwright.expect(page.locator("#log li", has_text="roamer-8")).to_contain_text("b1 → b2")


def test_charts_show_messages_latency_and_clients_over_time(town: Town, page: Page, tmp_path: Path) -> None:
    with town.client("teller-11") as teller, town.client("hearer-11", "b2") as hearer:
        hearer.subscribe("tell/11")
        page.click("#tab-charts")
        messages = page.locator("[data-chart=Messages]")
        for _ in range(200):
            teller.publish("tell/11")
            hearer.next()
            if float(messages.locator("b").first.inner_text().replace("–", "0")) > 0:
                break
        playwright.expect(messages.locator("path").first).to_have_attribute("d", re.compile(r"M[\d.]+ [\d.]+"))
        latency = page.locator("[data-chart=Latency] b")
        playwright.expect(latency.first).not_to_have_text("–")
        assert float(latency.nth(0).inner_text()) <= float(latency.nth(1).inner_text())
        clients = page.locator("[data-chart=Clients] b")
        playwright.expect(clients).to_have_text("2")
        page.select_option("#charts-broker", "b2")
        playwright.expect(clients).to_have_text("1")
        page.screenshot(path=tmp_path / "charts.png")


def test_sessions_are_listed_kicked_and_ended(town: Town, page: Page, tmp_path: Path) -> None:
    with town.client("guest-12", kept_s=600) as guest:
        guest.report(5, 5, attributes={"type": "boat"})
        guest.subscribe("x/#")
        page.click("#tab-clients")
        client = page.locator("#clients-table [data-client=guest-12]")
        playwright.expect(client).to_contain_text("boat")
        playwright.expect(client).to_contain_text("5, 5")
        page.click("#table-sessions")
        row = page.locator("#clients-table [data-client=guest-12]")
        playwright.expect(row).to_contain_text("10 min")
        page.screenshot(path=tmp_path / "sessions.png")
        row.get_by_role("button", name="Kick").click()
        page.fill("#confirm-why", "time to go")
        page.click("#confirm-yes")
        assert guest.told_to_go() == "time to go"
        playwright.expect(page.locator("#clients-outcome")).to_have_text("Guest-12 was disconnected.")
    playwright.expect(row).to_contain_text("away")
    row.get_by_role("button", name="End").click()
    page.get_by_role("button", name="Cancel").click()
    playwright.expect(row).to_be_visible()
    row.get_by_role("button", name="End").click()
    page.click("#confirm-yes")
    playwright.expect(page.locator("#clients-outcome")).to_have_text("The session of guest-12 is over.")
    playwright.expect(row).to_have_count(0)


def test_who_may_not_is_told_so_in_the_brokers_words(
    town: Town, browser: "playwright.Browser", tmp_path: Path
) -> None:
    set_password(tmp_path / "passwords", "guard", "secret")
    rules = [{"publish": ["#"], "subscribe": ["of/#", "$roam/position/+"]}]
    town.start("b5", security={"passwords": str(tmp_path / "passwords"), "rules": rules})
    context = browser.new_context(viewport=WIDE, http_credentials={"username": "guard", "password": "secret"})
    page = context.new_page()
    page.goto(f"{town.http('b5')}/studio/")
    page.click("#intro-close")
    page.click("#tab-clients")
    playwright.expect(page.locator("#clients-note")).to_have_text("0 clients")
    page.click("#table-sessions")
    playwright.expect(page.locator("#clients-note")).to_contain_text("$roam/admin/sessions")
    context.close()
    town.stop("b5")


def test_pause_holds_what_is_shown_and_a_step_lets_one_tick_in(town: Town, page: Page) -> None:
    with town.client("ticker-9") as ticker:
        ticker.report(0, 0)
        find(page, "ticker-9")
        page.click("#tab-live")
        page.click("#pause")
        ticker.publish("while/paused")
        status = page.locator("#status")
        playwright.expect(status).to_have_text(re.compile(r"Paused · [1-9]\d* ticks? waits?"))
        held = page.locator("#log li", has_text="while/paused")
        playwright.expect(held).to_have_count(0)
        while held.count() == 0:
            page.locator("#step:enabled").click()
        playwright.expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
        ticker.publish("still/paused")
        page.click("#pause")
        playwright.expect(page.locator("#log li", has_text="still/paused")).to_have_count(1)


def test_a_layer_that_is_switched_off_stays_off(town: Town, page: Page) -> None:
    page.uncheck("[data-layer=regions]")
    page.reload()
    playwright.expect(page.locator("[data-layer=regions]")).not_to_be_checked()
    playwright.expect(page.locator("[data-layer=entities]")).to_be_checked()


def test_a_broker_that_goes_away_is_said_and_called_again(town: Town, context: "playwright.BrowserContext") -> None:
    town.start("b9")
    port = town.port("b9", "http")
    page = context.new_page()
    page.goto(f"{town.http('b9')}/studio/")
    playwright.expect(page.locator("#status")).to_have_text("1 broker")
    town.stop("b9")
    playwright.expect(page.locator("#banner")).to_contain_text("b9 does not answer.")
    playwright.expect(page.locator("#status")).to_have_text("0 of 1 brokers")
    town.start("b9", http=port)
    playwright.expect(page.locator("#status")).to_have_text("1 broker")
    playwright.expect(page.locator("#banner")).to_be_hidden()
    town.stop("b9")


def map_height(page: Page) -> float:
    box = page.locator("#map").bounding_box()
    assert box is not None
    return box["height"]


def test_a_phone_takes_part_with_its_own_location(town: Town, browser: "playwright.Browser", tmp_path: Path) -> None:
    town.start("b8", space="earth")
    here: playwright.Geolocation = {"longitude": 24.94, "latitude": 60.17, "accuracy": 12}
    phone = browser.new_context(viewport=PHONE, has_touch=True, geolocation=here, permissions=["geolocation"])
    page = phone.new_page()
    page.goto(f"{town.http('b8')}/studio/")
    page.click("#intro-close")
    # The map has the page to itself until a panel is asked for, and most of it with one.
    playwright.expect(page.locator("#panel-live")).to_be_hidden()
    assert map_height(page) > 0.75 * PHONE["height"]
    page.click("#tab-talk")
    assert map_height(page) > 0.35 * PHONE["height"]
    page.fill("#talk-name", "phone-8")
    page.click("#talk-connect")
    page.click("#talk-locate")
    playwright.expect(page.locator("#talk-where")).to_contain_text("24.94000, 60.17000 (within 12 m)")
    page.click("#talk-place")
    playwright.expect(page.locator("#panel-talk")).to_be_hidden()
    page.keyboard.press("Escape")
    page.click("#talk-locate")
    page.click("#tab-find")
    playwright.expect(page.locator("#find-list [data-entity=phone-8]")).to_be_visible()
    phone.set_geolocation({**here, "latitude": 60.18})
    page.locator("#find-list [data-entity=phone-8]").click()
    playwright.expect(page.locator("#details")).to_contain_text("24.94000, 60.18000")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
    page.screenshot(path=tmp_path / "phone.png")
    phone.close()
    town.stop("b8")


HARBOUR = {"kind": "box", "low": [-50.0, -50.0], "high": [50.0, 50.0]}
GROUND = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"kind": "water", "fill": "#0000ff"},
            "geometry": {"type": "Polygon", "coordinates": [[[-100, -100], [100, -100], [100, 100], [-100, 100]]]},
        },
        {
            "type": "Feature",
            "properties": {"name": "The quay"},
            "geometry": {"type": "Point", "coordinates": [0, 30]},
        },
    ],
}


def test_any_type_has_a_sign_and_zones_and_ground_are_drawn(
    town: Town, context: "playwright.BrowserContext", tmp_path: Path
) -> None:
    (tmp_path / "ground.json").write_text(json.dumps(GROUND))
    studio = {
        "types": {"crane": {"icon": "KR", "colour": "#123456"}},
        "zones": [{"name": "Harbour", "area": HARBOUR}],
        "map": str(tmp_path / "ground.json"),
    }
    town.start("b7", studio=studio)
    with town.client("crane-1", "b7") as crane, town.client("fork-1", "b7") as fork:
        crane.report(0, 0, attributes={"type": "crane"})
        fork.report(80, 0, attributes={"type": "forklift"})
        page = context.new_page()
        page.goto(f"{town.http('b7')}/studio/")
        page.click("#intro-close")
        shown = page.locator("#legend-types [data-type=Crane]")
        playwright.expect(shown).to_contain_text("KR")
        assert shown.locator("svg").evaluate("it => getComputedStyle(it).backgroundColor") == "rgb(18, 52, 86)"
        other = page.locator("#legend-types [data-type=Forklift]")
        playwright.expect(other).to_contain_text("Fo")
        assert other.locator("svg").evaluate("it => getComputedStyle(it).backgroundColor").startswith("oklch(")
        harbour = page.locator("#legend-zones [data-zone=Harbour]")
        playwright.expect(harbour.locator("span").last).to_have_text("1")
        fork.report(20, 0)
        playwright.expect(harbour.locator("span").last).to_have_text("2")
        playwright.expect(page.locator(".ground-name")).to_have_text("The quay")
        page.screenshot(path=tmp_path / "harbour.png")
    town.stop("b7")


def test_tiles_come_from_the_server_that_the_settings_name(town: Town, context: "playwright.BrowserContext") -> None:
    with tile_server() as (address, asked):
        tiles = f"{address}/{{z}}/{{x}}/{{y}}.png"
        town.start("b6", space="earth", studio={"tiles": tiles, "attribution": "© nobody", "place": [24.94, 60.17]})
        page = context.new_page()
        page.goto(f"{town.http('b6')}/studio/")
        playwright.expect(page.locator("#map img.leaflet-tile-loaded").first).to_be_attached()
        playwright.expect(page.locator(".leaflet-control-attribution")).to_have_text("© nobody")
        assert re.fullmatch(r"/16/\d+/\d+\.png", asked[0])
        town.stop("b6")


def test_the_page_asks_nobody_but_brokers(town: Town, context: "playwright.BrowserContext") -> None:
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    page.goto(f"{town.http('b2')}/studio/")
    playwright.expect(page.locator("#status")).to_have_text("2 brokers")
    brokers = tuple(f"{scheme}{town.http(name)[4:]}/studio/" for name in ("b1", "b2") for scheme in ("http", "ws"))
    assert [url for url in asked if not url.startswith(brokers)] == []
    assert any(url.startswith("ws") for url in asked)


def test_light_and_dark_follow_the_system_until_the_viewer_chooses(
    town: Town, browser: "playwright.Browser", tmp_path: Path
) -> None:
    dark = browser.new_context(viewport=WIDE, color_scheme="dark")
    page = dark.new_page()
    page.goto(f"{town.http('b2')}/studio/")
    root = page.locator("html")
    playwright.expect(root).to_have_attribute("data-theme", "dark")
    page.screenshot(path=tmp_path / "dark.png")
    page.click("#theme")
    playwright.expect(root).to_have_attribute("data-theme", "light")
    page.reload()
    playwright.expect(root).to_have_attribute("data-theme", "light")
    dark.close()
