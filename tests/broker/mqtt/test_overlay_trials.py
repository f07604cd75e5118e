"""O4, O7: in an overlay everything comes once and in order, while links come and go and modulators are relocated."""

from random import Random

import pytest

from roamcast.broker.modulators.spec import Declarative, Every, spec_to_text
from roamcast.broker.mqtt.core import Core
from roamcast.broker.overlay.params import OverlayParams
from roamcast.live.overlay.core import OverlayCore
from tests.broker.mqtt.scene import published
from tests.broker.mqtt.stage import SimClient, Stage
from tests.effort import seeds


@pytest.mark.parametrize("faults", ["", "cut"])
@seeds(3, quick=1)
def test_o4_o7_in_an_overlay_everything_comes_once_in_order_while_links_come_and_go(seed: int, faults: str) -> None:
    trial = OverlayTrial(seed, bool(faults))
    trial.run()
    trial.check()


class OverlayTrial:
    EDGES = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("b", "d"))
    EVERY = 2

    def __init__(self, seed: int, cuts: bool) -> None:
        self.seed, self.cuts = seed, cuts
        self.rng = Random(seed)
        params = OverlayParams(update_period_s=1.0, discovery_period_s=1.0, resend_s=0.5, resend_s_max=2.0)
        self.stage = Stage(seed, self.EDGES, overlay=params)
        self.readers = [SimClient(self.stage, f"r{number}", 0) for number in range(3)]
        self.writers = [SimClient(self.stage, f"w{number}", 0) for number in range(2)]
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
                reader.subscribe(f"t/{writer.name}", 1, None, **modulator)
        self.stage.run(3.0)
        for number in range(40):
            for qos, writer in enumerate(self.writers):
                payload = b"%d" % number
                self.said[writer.name].append(payload)
                writer.publish(f"t/{writer.name}", payload, qos)
            self._trouble()
            self.stage.run(self.rng.choice((0.01, 0.1, 0.5)))
        self.stage.heal()
        self.stage.run(20.0)

    def _trouble(self) -> None:
        if self.cuts and self.rng.random() < 0.15:
            self.stage.unlink(*self.rng.choice(self.EDGES))
        if self.rng.random() < 0.15:
            self.stage.heal()
        if self.rng.random() < 0.2:
            self._relocate()

    def _relocate(self) -> None:
        broker = self.stage.brokers[self.rng.choice("abcd")]
        guests = overlay_core(broker.server.core).border.guests
        posts = list(guests.broker.clients.posts)
        if posts:
            guests.border.now_us, to = broker.server.now_us(), self.rng.choice("abcd")
            place = guests.broker.relocation.departing.place
            for effect in place(guests.border.now_us, self.rng.choice(posts), to):
                guests._perform(broker.name, effect)
            broker.server.outbound.perform(guests.border.take_effects())

    def check(self) -> None:
        assert all(writer.settled for writer in self.writers)
        for number, reader in enumerate(self.readers):
            for name, said in self.said.items():
                wanted = said[:: self.EVERY] if number == 0 else said
                came = [each.payload for each in published(reader) if each.topic == f"t/{name}"]
                assert came == wanted, f"seed {self.seed}: {reader.name} of {name}"


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
