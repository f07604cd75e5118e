"""L7: passwords, client certificates and areas, as clients of two vendors meet them at a broker process."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from msgspec import Struct

from roamcast.server.security.passwords import set_password
from tests.ports import free_ports
from tests.processes.fleet import certificate_files, shared_fleet
from tests.processes.test_pub_sub import roamcast
from tests.processes.vendors import connect_paho, end_paho, mosquitto_pub, need, paho_client, until

pytestmark = [pytest.mark.timeout(120), pytest.mark.process]
NOT_AUTHORIZED = 0x87
BAD_PASSWORD = 0x86
HARBOUR = {"kind": "box", "low": [0, 0], "high": [100, 100]}
RULES = [
    {"users": ["reader"], "publish": ["in/reader"], "subscribe": ["#"]},
    {"users": ["truck-*"], "publish": ["of/%u/#"]},
    {"users": ["truck-*"], "publish": ["harbour/#"], "area": HARBOUR},
]


class Place(Struct, frozen=True):
    """Where a guarded broker is, and what clients need there."""

    folder: Path
    tcp: int
    tls: int


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need("mosquitto")
    folder = tmp_path_factory.mktemp("access")
    authority, others = trustme.CA(), trustme.CA()
    files = certificate_files(authority, folder, "a")
    for issuer, name in ((authority, "truck-3"), (others, "forged")):
        issued = issuer.issue_cert("someone@example.org", common_name="truck-3")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    for user in ("reader", "truck-1", "truck-2"):
        set_password(folder / "passwords", user, f"secret of {user}")
    tcp, tls = free_ports(2)
    secure = {"kind": "tls", "port": tls, "client_ca": files["ca"]} | {
        key: files[key] for key in ("certificate", "key")
    }
    security = {"passwords": "passwords", "rules": RULES, "limits": {"connects_per_s": 0}}
    listeners = [{"port": tcp, "host": "127.0.0.1"}, secure]
    with shared_fleet(folder, "a", listeners=listeners, security=security, log_level="debug"):
        yield Place(folder, tcp, tls)


class Client:
    """paho, and what it was answered."""

    def __init__(self, name: str) -> None:
        self.paho = paho_client(name)
        self.answers: list[int] = []
        """Of CONNACK, SUBACK and PUBACK."""
        self.got: list[str] = []
        self.paho.on_connect = lambda _client, _data, _flags, reason, _properties: self.answers.append(reason.value)
        self.paho.on_publish = lambda _client, _data, _id, reason, _properties: self.answers.append(reason.value)
        self.paho.on_subscribe = lambda _client, _data, _id, reasons, _properties: self.answers.append(
            reasons[0].value
        )
        self.paho.on_message = lambda _client, _data, message: self.got.append(message.payload.decode())

    async def answer(self) -> int:
        await until(lambda: bool(self.answers), "no answer")
        return self.answers.pop(0)

    async def connect(self, port: int, user: str | None = None, password: str = "") -> int:
        if user is not None:
            self.paho.username_pw_set(user, password)
        connect_paho(self.paho, port)
        return await self.answer()

    async def publish(self, topic: str, payload: Any) -> int:
        self.paho.publish(topic, json.dumps(payload), qos=1)
        return await self.answer()


async def reader_at(place: Place, topic: str) -> Client:
    reader = Client(f"reader-of-{topic.replace('/', '-')}")
    assert await reader.connect(place.tcp, "reader", "secret of reader") == 0
    reader.paho.subscribe(topic, qos=1)
    assert await reader.answer() == 1
    return reader


@pytest.mark.slow
def test_l7_who_has_a_password_comes_in_and_publishes_what_is_its_own(place: Place) -> None:
    async def work() -> None:
        reader = await reader_at(place, "of/#")
        truck, stranger = Client("truck-1"), Client("stranger")
        assert await truck.connect(place.tcp, "truck-1", "secret of truck-1") == 0
        assert await truck.publish("of/truck-1/news", 1) == 0
        assert await truck.publish("of/truck-2/news", 2) == NOT_AUTHORIZED
        assert await stranger.connect(place.tcp, "truck-1", "guessed") == BAD_PASSWORD
        own = ("-i", "truck-2", "-u", "truck-2", "-P", "secret of truck-2")
        assert mosquitto_pub(place.tcp, *own, "-t", "of/truck-2/news", "-m", "3").returncode == 0
        refused = mosquitto_pub(place.tcp, *own, "-t", "of/truck-1/news", "-m", "4")
        assert "ot authorized" in refused.stderr
        guessed = mosquitto_pub(
            place.tcp, "-i", "x", "-u", "truck-2", "-P", "guessed", "-t", "of/truck-2/news", "-m", "5"
        )
        assert guessed.returncode != 0
        await until(lambda: len(reader.got) >= 2, "not everything has come")
        assert reader.got == ["1", "3"]
        for each in (reader, truck, stranger):
            await end_paho(each.paho)

    asyncio.run(asyncio.wait_for(work(), 110))


def test_l7_a_certificate_is_a_user_and_one_of_another_authority_is_none(place: Place) -> None:
    async def work() -> None:
        reader = await reader_at(place, "of/truck-3/#")
        truck = Client("by-certificate")
        folder = place.folder
        truck.paho.tls_set(str(folder / "ca.pem"), str(folder / "truck-3.pem"), str(folder / "truck-3.key"))
        assert await truck.connect(place.tls) == 0
        assert await truck.publish("of/truck-3/news", 1) == 0
        assert await truck.publish("of/truck-1/news", 2) == NOT_AUTHORIZED
        message = ("-i", "m", "-t", "of/truck-3/news", "-m", "3", "--cafile", str(folder / "ca.pem"))

        def shown(name: str) -> tuple[str, ...]:
            return (*message, "--cert", str(folder / f"{name}.pem"), "--key", str(folder / f"{name}.key"))

        assert mosquitto_pub(place.tls, *shown("truck-3")).returncode == 0
        assert mosquitto_pub(place.tls, *shown("forged")).returncode != 0
        assert mosquitto_pub(place.tls, *message).returncode != 0
        await until(lambda: len(reader.got) >= 2, "not everything has come")
        assert reader.got == ["1", "3"]
        for each in (reader, truck):
            await end_paho(each.paho)

    asyncio.run(asyncio.wait_for(work(), 110))


def test_l7_into_an_area_only_who_is_in_it_may_publish(place: Place) -> None:
    async def work() -> None:
        reader = await reader_at(place, "harbour/#")
        truck = Client("truck-1-area")
        assert await truck.connect(place.tcp, "truck-1", "secret of truck-1") == 0
        assert await truck.publish("harbour/alarm", 1) == NOT_AUTHORIZED
        assert await truck.publish("$roam/me", {"position": [50, 50]}) == 0
        assert await truck.publish("harbour/alarm", 2) == 0
        assert await truck.publish("$roam/me", {"position": [500, 50]}) == 0
        assert await truck.publish("harbour/alarm", 3) == NOT_AUTHORIZED
        own = ("-i", "truck-2-area", "-c", "-x", "600", "-u", "truck-2", "-P", "secret of truck-2")
        for position, refused in (([500, 50], True), ([50, 50], False)):
            report = json.dumps({"position": position})
            assert mosquitto_pub(place.tcp, *own, "-t", "$roam/me", "-m", report).returncode == 0
            alarm = mosquitto_pub(place.tcp, *own, "-t", "harbour/alarm", "-m", str(position[0]))
            assert ("ot authorized" in alarm.stderr) == refused
        await until(lambda: len(reader.got) >= 2, "not everything has come")
        assert reader.got == ["2", "50"]
        for each in (reader, truck):
            await end_paho(each.paho)

    asyncio.run(asyncio.wait_for(work(), 110))


@pytest.mark.slow
def test_l7_who_is_not_let_in_is_told_why_and_the_log_says_who_it_was(place: Place) -> None:
    broker = ("--broker", f"mqtt://127.0.0.1:{place.tcp}", "--name", "somebody")
    for words, told in (
        (("--user", "truck-1", "--password", "guessed"), "user name or password is wrong"),
        (("--user", "truck-1"), "'truck-1' gave no password"),
        ((), "a user name and password, or a client certificate, is needed"),
    ):
        code, _, said = asyncio.run(roamcast("sub", "t", *broker, *words))
        assert code == 1
        assert told in said
        assert "Is a broker there?" not in said
        user = "user 'truck-1'" if words else "no user"
        assert f"somebody, {user}, from 127.0.0.1: {told}" in (place.folder / "a.out").read_text()


def test_l7_l2_the_log_says_why_a_subscription_was_refused(place: Place) -> None:
    own = ("--broker", f"mqtt://127.0.0.1:{place.tcp}", "--user", "truck-1", "--password", "secret of truck-1")
    code, _, said = asyncio.run(roamcast("sub", "of/others", *own, "--name", "curious"))
    assert (code, "not authorized" in said) == (1, True)
    assert "curious: of/others: not authorized" in (place.folder / "a.out").read_text()


@pytest.mark.slow
def test_l7_who_has_not_told_where_it_is_hears_that_its_place_is_not_known(place: Place) -> None:
    own = ("--broker", f"mqtt://127.0.0.1:{place.tcp}", "--user", "truck-1", "--password", "secret of truck-1")
    code, _, said = asyncio.run(roamcast("pub", "harbour/alarm", "x", *own))
    assert (code, "it has not reported where it is" in said) == (1, True)


@pytest.mark.slow
def test_l7_of_a_port_with_tls_it_is_said_what_to_write(place: Place) -> None:
    for address, told in (("mqtt", "if it speaks TLS there, write mqtts://"), ("mqtts", "name its authority (--ca")):
        code, _, said = asyncio.run(roamcast("sub", "t", "--broker", f"{address}://127.0.0.1:{place.tls}"))
        assert (code, told in said) == (2, True), said
