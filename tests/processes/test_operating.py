"""L6: a running broker is looked at and operated by commands."""

import asyncio
import json
from pathlib import Path

import pytest

from roamcast.server.security.passwords import set_password
from tests.processes.fleet import COMMAND, BrokerProcess, environment, fleet
from tests.processes.vendors import connect_paho, paho_client, until

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]
OPS = {"users": ["ops"], "publish": ["$roam/admin/#"], "subscribe": ["$roam/admin/#"]}
VANS = {"users": ["van"], "publish": ["#"], "subscribe": ["#"]}


async def command(broker: BrokerProcess, *words: str, user: str = "ops") -> tuple[int, str]:
    """Its exit code, and what it prints."""
    where = ("--http", f"http://127.0.0.1:{broker.http_port}", "--user", user)
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "broker",
        *words,
        *where,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment() | {"ROAMCAST_PASSWORD": user, "COLUMNS": "200"},
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


def test_l6_commands_tell_how_a_broker_is_and_operate_it(tmp_path: Path) -> None:
    async def work() -> None:
        for user in ("ops", "van"):
            set_password(tmp_path / "passwords", user, user)
        security = {"passwords": "passwords", "rules": [OPS, VANS], "limits": {"connects_per_s": 0}}
        async with fleet(tmp_path, "a", security=security) as brokers:
            broker, van = brokers["a"], paho_client("van")
            gone: list[int] = []
            van.on_disconnect = lambda _client, _data, _flags, reason, _more: gone.append(reason.value)
            van.username_pw_set("van", "van")
            connect_paho(van, broker.mqtt_port)
            await until(van.is_connected, "not connected")
            code, told = await command(broker, "status", "--json")
            assert (code, json.loads(told)["connected"]) == (0, 1)
            assert "waiting messages" in (await command(broker, "status"))[1]
            code, told = await command(broker, "status", user="van")
            assert code == 1
            assert "$roam/admin/status" in told
            code, told = await command(broker, "kick", "van")
            assert (code, told) == (0, "van was disconnected\n")
            await until(lambda: bool(gone), "it was not disconnected")
            assert gone == [0x98]
            assert (await command(broker, "end", "nobody"))[0] == 1
            broker.settings["security"]["rules"] = [OPS]
            broker.write_settings()
            assert (await command(broker, "reload"))[0] == 0
            broker.config.write_text("name = 3", encoding="utf-8")
            code, told = await command(broker, "reload")
            assert (code, "name" in told) == (1, True)
            code, told = await command(broker, "drain")
            assert (code, "told to go" in told) == (0, True)
            await broker.stop()
            assert (await command(broker, "status"))[0] == 2
            van.loop_stop()

    asyncio.run(work())
