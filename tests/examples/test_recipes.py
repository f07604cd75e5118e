"""The recipes of docs/howto/RECIPES.md with their broker: the files do with real messages what the page says."""

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import aiomqtt
import jinja2
import pytest
import yaml

from roamcast import Client, Point
from tests.docs.pages import text_of
from tests.ports import free_ports
from tests.processes.fleet import COMMAND, environment

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]
ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples/recipes"
DEPOT = {
    "type": "Feature",
    "geometry": {"type": "Point", "coordinates": [24.94, 60.17]},
    "properties": {"radius_m": 200, "on": ["leave"], "hysteresis_m": 5},
}
FAR = [24.95, 60.17]
NODE_RED = shutil.which("node-red") or os.environ.get("NODE_RED", "")


@asynccontextmanager
async def broker(folder: Path) -> AsyncIterator[tuple[int, int]]:
    """The broker of the recipes with the fence of the page, on free ports: that of MQTT and that of HTTP."""
    mqtt_port, http_port = free_ports(2)
    settings = (RECIPES / "broker.toml").read_text(encoding="utf-8").replace("8080", str(http_port))
    config = folder / "broker.toml"
    config.write_text(settings, encoding="utf-8")
    command = [*COMMAND, "broker", "--config", str(config), "--mqtt-port", str(mqtt_port)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=environment(), cwd=folder
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while b"is ready" not in await process.stdout.readline():
                assert process.returncode is None
        async with aiomqtt.Client("127.0.0.1", mqtt_port) as operator:
            await operator.publish("$roam/fences/depot", json.dumps(DEPOT), qos=1, retain=True)
        yield mqtt_port, http_port
    finally:
        process.terminate()
        await process.communicate()


def owntracks(longitude: float, latitude: float) -> str:
    return json.dumps({"_type": "location", "lat": latitude, "lon": longitude, "tst": int(time.time()), "acc": 8})


async def next_json(client: aiomqtt.Client) -> Any:
    async with asyncio.timeout(60):
        message = await anext(client.messages)
    assert isinstance(message.payload, bytes)
    return json.loads(message.payload)


def rendered(template: str, **values: object) -> str:
    return jinja2.Environment(autoescape=False).from_string(template).render(**values).strip()


def test_l4_home_assistant_shows_a_phone_with_owntracks(tmp_path: Path) -> None:
    tracker = yaml.safe_load((RECIPES / "home_assistant.yaml").read_text())["mqtt"]["device_tracker"][0]

    async def story() -> None:
        async with broker(tmp_path) as (port, _), aiomqtt.Client("127.0.0.1", port, identifier="van-7") as phone:
            await phone.publish("owntracks/ann/phone", owntracks(24.94, 60.17), qos=1)
            async with aiomqtt.Client("127.0.0.1", port) as assistant:
                await assistant.subscribe(tracker["json_attributes_topic"])
                said = await next_json(assistant)
            shown = json.loads(rendered(tracker["json_attributes_template"], value_json=said))
            assert (shown["latitude"], shown["longitude"]) == (60.17, 24.94)
            lost = rendered(tracker["json_attributes_template"], value_json={"position": None})
            assert json.loads(lost) == {}

    asyncio.run(story())


def test_f2_home_assistant_automates_by_a_fence(tmp_path: Path) -> None:
    automation = yaml.safe_load((RECIPES / "home_assistant.yaml").read_text())["automation"][0]

    async def story() -> None:
        async with broker(tmp_path) as (port, _), aiomqtt.Client("127.0.0.1", port) as assistant:
            await assistant.subscribe(automation["triggers"][0]["topic"], qos=1)
            await leave_the_depot(port)
            trigger = {"payload_json": await next_json(assistant)}
        assert rendered(automation["conditions"][0]["value_template"], trigger=trigger) == "True"
        assert rendered(automation["actions"][0]["data"]["message"], trigger=trigger) == "van-7 left the depot"

    asyncio.run(story())


async def leave_the_depot(port: int) -> None:
    async with aiomqtt.Client("127.0.0.1", port, identifier="van-7") as van:
        for position in ([24.94, 60.17], FAR):
            await van.publish("$roam/me", json.dumps({"position": position}), qos=1)


def bridge_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kafka_bridge", RECIPES / "kafka_bridge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_l3_kafka_bridge_gets_again_what_kafka_did_not_confirm(tmp_path: Path) -> None:
    module = bridge_module()
    records: list[tuple[bytes, bytes]] = []

    async def lost(*_: object) -> None:
        raise ConnectionError

    async def confirmed(key: bytes, value: bytes, _: object) -> None:
        records.append((key, value))
        if len(records) == 2:
            raise asyncio.CancelledError

    async def story() -> None:
        async with broker(tmp_path) as (port, _):
            address = [f"mqtt://127.0.0.1:{port}"]
            async with Client("kafka-bridge", address, resume=True) as first:
                await first.subscribe("alerts/#", "severity >= 3", qos=1)
            async with Client("sensor", address) as sensor:
                for severity in (3, 1, 4):
                    await sensor.publish("alerts/ice", {"severity": severity})
            for send, ended_by in ((lost, ConnectionError), (confirmed, asyncio.CancelledError)):
                with pytest.raises(ended_by):
                    async with asyncio.timeout(60), Client("kafka-bridge", address, resume=True) as client:
                        await module.bridge(client, "alerts/#", "severity >= 3", send)

    asyncio.run(story())
    assert records == [(b"alerts/ice", b'{"severity":3}'), (b"alerts/ice", b'{"severity":4}')]


def test_l6_grafana_finds_what_it_selects_from_positions(tmp_path: Path) -> None:
    page = text_of("docs/howto/RECIPES.md")
    rows = [line for line in page.splitlines() if line.startswith(("| `geometry", "| `properties"))]
    selectors = [row.split("`")[1] for row in rows]

    async def story() -> None:
        async with broker(tmp_path) as (port, http_port):
            async with Client("van-7", [f"mqtt://127.0.0.1:{port}"]) as van:
                await van.move(Point(24.94, 60.17))
                url = f"http://127.0.0.1:{http_port}/api/positions"
                answer = json.loads(await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=30).read()))
            assert [selected(answer["features"][0], each) for each in selectors] == [24.94, 60.17, "van-7"]

    asyncio.run(story())


def selected(found: Any, selector: str) -> Any:
    for part in selector.split("."):
        found = found[int(part)] if part.isdigit() else found[part]
    return found


@pytest.mark.slow
@pytest.mark.skipif(not NODE_RED, reason="node-red is not installed; NODE_RED may name it")
def test_f2_node_red_makes_an_alert_of_who_leaves_a_fence(tmp_path: Path) -> None:
    async def story() -> None:
        async with broker(tmp_path) as (port, _), aiomqtt.Client("127.0.0.1", port) as reader:
            flow = json.loads((RECIPES / "node_red.json").read_text())
            (configured,) = [node for node in flow if node["type"] == "mqtt-broker"]
            configured["port"] = str(port)
            (tmp_path / "flows.json").write_text(json.dumps(flow))
            (ui_port,) = free_ports(1)
            command = [NODE_RED, "--userDir", str(tmp_path), "--port", str(ui_port), "flows.json"]
            with (tmp_path / "node-red.out").open("w") as said:
                node_red = await asyncio.create_subprocess_exec(*command, stdout=said, stderr=subprocess.STDOUT)
            try:
                await reader.subscribe("alerts/left", qos=1)
                async with asyncio.timeout(120):
                    while "Connected to broker" not in (tmp_path / "node-red.out").read_text():
                        assert node_red.returncode is None
                        await asyncio.sleep(0.2)
                alert = asyncio.create_task(next_json(reader))
                while not alert.done():
                    # Node-RED says that it is connected, not that it has subscribed: so the van leaves again.
                    await leave_the_depot(port)
                    await asyncio.wait([alert], timeout=2)
                assert (await alert)["host"] == "van-7"
                assert (await alert)["severity"] == 3
            finally:
                node_red.terminate()
                await node_red.wait()

    asyncio.run(story())
