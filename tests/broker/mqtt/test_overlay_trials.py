"""O4, O7: in an overlay everything comes once and in order, while links come and go and modulators are relocated."""

from random import Random

import pytest

from roamcast.broker.modulators.spec import Declarative, Every, spec_to_text
from roamcast.broker.mqtt.core import Core
from roamcast.broker.overlay.mqtt.core import OverlayCore
from roamcast.broker.overlay.params import OverlayParams
from roamcast.mqtt.packets import Publish, PubRel
from tests.broker.mqtt.stage import SimClient, Stage
from tests.effort import seeds


@pytest.mark.parametrize("faults", ["", "cut", "roam", "cut and roam"])
@seeds(8, quick=1)
def test_l3_o4_o7_in_an_overlay_everything_comes_once_in_order_while_links_and_clients_come_and_go(
    seed: int, faults: str
) -> None:
    trial = OverlayTrial(seed, "cut" in faults, "roam" in faults)
    trial.run()
    trial.check()


@pytest.mark.parametrize("cut_s", [80.0, 110.0])
def test_l3_rule_92_a_session_on_its_way_is_waited_for_until_its_old_broker_gives_up(cut_s: float) -> None:
    """The link is cut just when the old broker has sent the session, and forgotten it."""
    stage = Stage(1, (("a", "b"), ("b", "c")), overlay=OverlayParams(update_period_s=1.0, discovery_period_s=1.0))
    stage.run(5.0)
    reader, writer = SimClient(stage, "reader", 1_000), SimClient(stage, "writer", 1_000)
    reader.connect("a")
    writer.connect("a")
    stage.run(1.0)
    reader.subscribe("t", 1)
    stage.run(2.0)
    reader.drop()
    stage.run(1.0)
    said = [b"%d" % number for number in range(20)]
    for payload in said:
        writer.publish("t", payload, 1)
    stage.run(2.0)
    assert writer.settled
    reader.connect("b")
    sessions = overlay_core(stage.brokers["a"].server.core).border.sessions
    for _ in range(20_000):
        if "reader" not in sessions:
            break
        stage.run(0.000_1)
    assert "reader" not in sessions
    stage.unlink("a", "b")
    stage.run(cut_s)
    stage.heal()
    stage.run(30.0)
    if not reader.ready:
        # Its CONNECT was not answered within two minutes. It tries again, as MQTT clients do.
        reader.connect("b")
        stage.run(5.0)
    assert reader.connacks[-1].session_present
    assert (reader.taken, reader.copies) == (said, [])


class OverlayTrial:
    EDGES = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d"))
    EVERY = 2

    def __init__(self, seed: int, cuts: bool, roams: bool = False) -> None:
        self.seed, self.cuts, self.roams = seed, cuts, roams
        self.rng = Random(seed)
        params = OverlayParams(update_period_s=1.0, discovery_period_s=1.0, resend_s=0.5, resend_s_max=2.0)
        self.stage = Stage(seed, self.EDGES, overlay=params)
        expiry_s = 1_000 if roams else 0
        self.readers = [SimClient(self.stage, f"r{number}", expiry_s) for number in range(3)]
        self.writers = [SimClient(self.stage, f"w{number}", expiry_s) for number in range(2)]
        self.said: dict[str, list[bytes]] = {each.name: [] for each in self.writers}

    def run(self) -> None:
        self.stage.run(5.0)
        for client in (*self.readers, *self.writers):
            client.connect(self.rng.choice("abcd"))
        self.stage.run(1.0)
        half = spec_to_text(Declarative(sampling=Every(self.EVERY)))
        for number, reader in enumerate(self.readers):
            for writer in self.writers:
                modulator = {"modulator": half} if number == 0 else {}
                reader.subscribe(f"t/{writer.name}", 2 if self.roams else 1, None, **modulator)
        self.stage.run(3.0)
        for number in range(40):
            for qos, writer in enumerate(self.writers):
                payload = b"%d" % number
                self.said[writer.name].append(payload)
                writer.publish(f"t/{writer.name}", payload, 2 if self.roams else qos)
            self._trouble()
            self.stage.run(self.rng.choice((0.01, 0.1, 0.5)))
        self.stage.heal()
        self.stage.run(20.0)
        if self.roams:
            # Who was refused while brokers could not reach each other tries again, as MQTT clients do.
            for client in (*self.readers, *self.writers):
                if not client.ready:
                    client.connect(self.rng.choice("abcd"))
            self.stage.run(20.0)

    def _trouble(self) -> None:
        if self.cuts and self.rng.random() < 0.15:
            self.stage.unlink(*self.rng.choice(self.EDGES))
        if self.rng.random() < 0.15:
            self.stage.heal()
        if self.rng.random() < 0.2:
            self._relocate()
        if self.roams and self.rng.random() < 0.3:
            client = self.rng.choice((*self.readers, *self.writers))
            client.connect(self.rng.choice("abcd"))

    def _relocate(self) -> None:
        broker = self.stage.brokers[self.rng.choice("abcd")]
        guests = overlay_core(broker.server.core).border.guests
        posts = list(guests.broker.clients.posts)
        if posts:
            guests.border.now_us, to = broker.server.now_us(), self.rng.choice("abcd")
            place = guests.broker.relocation.departing.place
            for effect in place(guests.border.now_us, self.rng.choice(posts), to):
                guests.perform(broker.name, effect)
            broker.server.outbound.perform(guests.border.take_effects())

    def check(self) -> None:
        assert all(writer.settled for writer in self.writers), f"seed {self.seed}"
        for number, reader in enumerate(self.readers):
            for name, said in self.said.items():
                wanted = said[:: self.EVERY] if number == 0 else said
                came = [each.payload for each in taken(reader) if each.topic == f"t/{name}"]
                assert came == wanted, f"seed {self.seed}: {reader.name} of {name}"


def taken(client: SimClient) -> list[Publish]:
    """Without what was sent again on another connection, and so has its packet identifier and its mark."""
    seen: dict[int, None] = {}
    new: list[Publish] = []
    for packet in client.heard:
        match packet:
            case Publish(qos=2) if packet.packet_id not in seen:
                seen[packet.packet_id] = None
                new.append(packet)
            case Publish(qos=0 | 1):
                new.append(packet)
            case PubRel():
                seen.pop(packet.packet_id, None)
    return new


def overlay_core(core: Core) -> OverlayCore:
    assert isinstance(core, OverlayCore)
    return core


def test_a_message_that_did_not_come_is_found() -> None:
    trial = OverlayTrial(1, False)
    trial.run()
    trial.check()
    trial.said["w1"].append(b"never said")
    with pytest.raises(AssertionError, match="seed 1: r0 of w1"):
        trial.check()
