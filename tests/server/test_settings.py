"""L2, L7: a broker's settings are validated as a whole, and the reference has every key."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, inspect

from roamcast.broker.overlay.params import OverlayParams
from roamcast.broker.params import BrokerParams
from roamcast.model.space import Earth, Plane
from roamcast.model.values import Point
from roamcast.mqtt.packets import Connect
from roamcast.server.security import Admitted, BadRules, Identity, Refused, ToVerify, set_password
from roamcast.server.settings import BadSettings, Listener, Settings, load_policy, load_settings, settings_from
from tests.docs.pages import blocks, key_tables, text_of
from tests.docs.test_docs import agrees, rows_of, structs_of

PAGE = text_of("docs/reference/BROKER.md")
LEAST = {"name": "north", "data": "data"}
ALL = [{"publish": ["#"], "subscribe": ["#"]}]

STRUCTS = structs_of(inspect.type_info(Settings), {})
ELSEWHERE = structs_of(inspect.type_info(OverlayParams), structs_of(inspect.type_info(BrokerParams), {}))
"""The keys of protocols are in the reference of scenarios."""


@pytest.mark.parametrize(
    "struct", [each for each in STRUCTS if each not in ELSEWHERE], ids=lambda each: each.__name__
)
def test_every_key_of_the_settings_is_documented_with_its_default(struct: type[Struct]) -> None:
    # The page says in words what the default listener is.
    rows = [(key, None if key == "listeners" else default) for key, default in rows_of(struct)]
    assert any(agrees(table, rows) for table in key_tables(PAGE)), f"BROKER.md lacks a table of {struct.__name__}"


def test_no_table_of_the_page_is_about_keys_that_are_gone() -> None:
    known = {field.encode_name for info in STRUCTS.values() for field in info.fields}
    assert [key for table in key_tables(PAGE) for key, _ in table if key not in known] == []


@pytest.mark.parametrize("text", blocks(PAGE, "toml"))
def test_the_examples_of_the_page_are_accepted(text: str) -> None:
    settings_from({**LEAST, **tomllib.loads(text)})


def test_a_name_and_a_directory_are_enough() -> None:
    settings = settings_from(LEAST)
    assert settings.open
    assert [(each.kind, each.port_number, settings.host_of(each)) for each in settings.listeners] == [
        ("tcp", 1883, "127.0.0.1")
    ]
    assert settings.model_space() == Earth()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listner": []}, "unknown key 'listner'; did you mean 'listeners'? (allowed here: name, data, space"),
        ({"listeners": [{"prot": 1}]}, "unknown key 'listeners[1].prot'; did you mean 'port'?"),
        ({"connections": {"recieve_max": 1}}, "unknown key 'connections.recieve_max'; did you mean 'receive_max'?"),
        (
            {"keeping": {"session": {"queue_max": 1}}},
            "unknown key 'keeping.session.queue_max'; did you mean 'queue_bytes_max'?",
        ),
        ({"protocol": {"routng": "x"}}, "unknown key 'protocol.routng'; did you mean 'routing'?"),
        ({"storage": {"bytes": 1}}, "unknown key 'storage.bytes'; did you mean 'bytes_max'?"),
        (
            {"security": {"rules": [{"publishes": ["#"]}]}},
            "unknown key 'security.rules[1].publishes'; did you mean 'publish'?",
        ),
        ({"space": "mars"}, "space: there is no 'mars' (allowed: earth, plane)"),
        ({"protocol": {"routing": "fast"}}, "protocol.routing: there is no 'fast'"),
        ({"protocol": {"kind": "context"}}, "protocol.kind is 'context'; MQTT clients are served by 'broker' and"),
        ({"protocol": {"kind": "overlay", "routing": "covering"}}, "unknown key 'protocol.routing'"),
        ({"protocol": {"kind": "overlay"}, "journal": "j"}, "journal: brokers of an overlay do not write journals"),
        ({"overlay": {}, "studio": {"enabled": True}, "http": {"port": 0}}, "a broker of an overlay has no studio"),
        ({"overlay": {}, "protocol": {"routing": "simple"}}, "protocol and overlay both say how brokers work"),
        (
            {"protocol": {"handover": "predictive"}},
            "protocol.handover 'predictive' needs a broker for each cell",
        ),
        ({"protocol": {"ahead": {"next_brokers": {"a": ["a"]}}}}, "'a' is named as the broker after itself"),
        ({"protocol": {"ahead": {"next_brokers": {"a": ["b"]}, "movement": "m"}}}, "give one of them"),
        ({"protocol": {"handovr": "batch"}}, "unknown key 'protocol.handovr'; did you mean 'handover'?"),
        ({"listeners": {"port": 1}}, "listeners: expected a list, not a table; write [[listeners]]"),
        ({"listeners": []}, "listeners is empty"),
        ({"listeners": [{"port": 70_000}]}, "port is 70000; give 1 to 65535"),
        ({"listeners": [{"kind": "tls"}]}, "certificate and key are needed with kind = 'tls'"),
        ({"listeners": [{"certificate": "a"}]}, "kind = 'tcp' has no use for them"),
        ({"listeners": [{"origins": ["a"]}]}, "write ws or wss"),
        (
            {"listeners": [{}, {"kind": "ws", "port": 1883}]},
            "listeners[2].port: 1883 is that of listeners[1] already",
        ),
        ({"http": {"port": 1883}}, "http.port: 1883 is that of listeners[1] already"),
        ({"name": "a/b"}, "name is 'a/b'; give 1 to 128 characters"),
        ({"name": "a>b"}, "name is 'a>b'; give 1 to 128 characters"),
        ({"name": "@a"}, "name is '@a'; what begins with @ is the name of a client among brokers"),
        (
            {"links": {"peers": [{"name": "@b", "host": "localhost", "port": 1}]}},
            "name is '@b'; what begins with @ is the name of a client among brokers",
        ),
        ({"links": {"peers": [{"name": "north", "host": "localhost", "port": 1}]}}, "'north' is this broker itself"),
        ({"links": {"peers": [{"name": "south", "host": "south.example", "port": 1}]}}, "south.example is not this"),
        ({"links": {"ca": "ca.pem"}}, "ca, certificate and key are needed together"),
        ({"security": {"passwords": "file"}}, "security.rules is missing, and what no rule allows is denied"),
        ({"listeners": [{"host": "0.0.0.0"}]}, "listeners[1].host: others can reach 0.0.0.0, and nothing keeps them"),
        ({"storage": {"bytes_max": 1}}, "bytes_max is at least 65536"),
        ({"data": ""}, "data is empty"),
        ({"data": "mysql://here"}, "give a directory, or postgresql://USER@HOST/DATABASE"),
        ({"storage": {"lease_s": 0}}, "lease_s is 0.0; give 1 to 60"),
        (
            {"links": {"peers": [{"name": "south", "host": "localhost", "port": 1, "standbys": ["south-2"]}]}},
            "standbys: 'south-2' is not an address; give host:port",
        ),
        (
            {"links": {"peers": [{"name": "south", "host": "localhost", "port": 1, "standbys": ["s.example:1"]}]}},
            "s.example is not this machine alone",
        ),
        ({"owntracks": {}, "space": "plane"}, "owntracks: its locations are on Earth, and space is 'plane'"),
        ({"owntracks": {"age_s": 3}}, "unknown key 'owntracks.age_s'; did you mean 'age_s_max'?"),
        ({"owntracks": {"age_s_max": 0}}, "owntracks.age_s_max: 0.0 is not a limit; give a number above 0"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_what_is_allowed(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(said)):
        settings_from({**LEAST, **given})


def test_l7_only_its_own_machine_reaches_a_broker_that_keeps_nobody_out_unless_it_is_told_otherwise() -> None:
    listener = Listener()
    assert settings_from(LEAST).host_of(listener) == "127.0.0.1"
    assert settings_from({**LEAST, "security": {"anonymous": True}}).host_of(listener) is None
    assert settings_from({**LEAST, "security": {"rules": ALL}}).host_of(listener) is None
    assert settings_from({**LEAST, "listeners": [{"host": "::1"}]}).listeners[0].host == "::1"
    settings_from({**LEAST, "listeners": [{"host": "0.0.0.0"}], "security": {"anonymous": True}})


def test_a_database_is_no_file_beside_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('name = "north"\ndata = "postgresql://north@db.example/roamcast"\n')
    assert load_settings(file).data == "postgresql://north@db.example/roamcast"


def test_paths_are_looked_for_beside_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(blocks(PAGE, "toml")[0])
    settings = load_settings(file)
    assert settings.data == str(tmp_path / "data/north")
    assert settings.journal == ""
    assert settings.listeners[0].certificate == ""
    assert settings.listeners[1].key == str(tmp_path / "tls/north.key")
    assert settings.links.ca == str(tmp_path / "tls/brokers-ca.pem")
    assert settings.security.passwords == str(tmp_path / "passwords")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"gone\.toml: cannot be read"):
        load_settings(tmp_path / "gone.toml")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(BadSettings, match=r"broken\.toml: not valid TOML"):
        load_settings(tmp_path / "broken.toml")


def test_l7_the_policy_is_what_the_files_say(tmp_path: Path) -> None:
    set_password(tmp_path / "passwords", "truck-7", "brief")
    (tmp_path / "rules.toml").write_text('[[rules]]\nusers = ["guest"]\nsubscribe = ["public/#"]\n')
    (tmp_path / "broker.toml").write_text(
        blocks(PAGE, "toml")[0].replace(
            'passwords = "passwords"', 'passwords = "passwords"\nrules_file = "rules.toml"'
        )
    )
    policy, passwords = load_policy(load_settings(tmp_path / "broker.toml"))
    assert passwords is not None
    assert not policy.open
    coming = policy.connect(Connect("c", username="truck-7", password=b"brief"))
    assert isinstance(coming, ToVerify)
    assert coming.hash == passwords.hashes["truck-7"]
    assert isinstance(policy.connect(Connect("c")), Refused)
    truck, guest = Identity("c", "truck-7"), Identity("g", "guest")
    harbour, elsewhere = Point(9.95, 53.52), Point(10.2, 53.52)
    assert policy.may_publish(truck, "public/harbour/jam", harbour).allowed
    assert not policy.may_publish(truck, "public/harbour/jam", elsewhere).allowed
    assert not policy.may_publish(guest, "public/harbour/jam", harbour).allowed
    assert policy.may_subscribe(guest, "public/+/jam").allowed


def test_l7_the_policy_of_a_broker_that_keeps_nobody_out_lets_everybody_in() -> None:
    policy, passwords = load_policy(settings_from(LEAST))
    assert passwords is None
    assert policy.connect(Connect("c")) == Admitted(Identity("c"))


def test_a_mistake_in_the_file_of_rules_is_named(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    settings = settings_from({**LEAST, "security": {"rules_file": str(rules)}})
    for text, said in [
        ("rules = [{ publsh = ['#'] }]", "unknown key 'rules[1].publsh'; did you mean 'publish'?"),
        ("rules = ", "not valid TOML"),
    ]:
        rules.write_text(text)
        with pytest.raises(BadRules, match=re.escape(said)):
            load_policy(settings)
    rules.unlink()
    with pytest.raises(BadRules, match="cannot be read"):
        load_policy(settings)


def test_an_area_must_lie_in_the_space() -> None:
    area = {"kind": "circle", "centre": [500, 500], "radius_m": 10}
    rules = {"rules": [{"publish": ["#"], "area": area}]}
    with pytest.raises(BadSettings, match="an area is not on the earth"):
        load_policy(settings_from({**LEAST, "security": rules}))
    settings = settings_from({**LEAST, "space": "plane", "security": rules})
    assert settings.model_space() == Plane()
    load_policy(settings)
