"""A trial of everything at once on the stage, and what must hold of it whatever happens meanwhile.

Writers say messages of every QoS, plain, retained or lasting, in bursts and alone; readers keep their sessions or
not, share subscriptions, roam; some leave a will. Links are cut, brokers are killed and come back. Then the faults
stop, a last round is said, and all of that must arrive.

Each payload says who said it, on which topic, on which of its connections and as which of its messages.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from roamcast.mqtt.packets import AnyPacket, ConnAck, Publish, Will
from roamcast.server.write_ahead import Due
from tests.broker.mqtt.stage import SimClient, Stage

TOPICS = ("k/x", "k/y", "f/z")
"""Of those below `k/` all sessions get everything; `f/` is for who is there."""
KINDS = ("plain", "plain", "retained", "lasting")
IN_FLIGHT_MAX = 20
GROUP = "g"


class Said(Struct, frozen=True):
    writer: str
    topic: str
    connection: int
    number: int
    qos: int
    kind: str

    @property
    def payload(self) -> bytes:
        return f"{self.writer} {self.topic} {self.connection} {self.number} {self.qos} {self.kind}".encode()


def said_in(payload: bytes) -> Said:
    writer, topic, connection, number, qos, kind = payload.decode().split()
    return Said(writer, topic, int(connection), int(number), int(qos), kind)


class Talker(SimClient):
    """Says all that it may at once in one piece, as a client does that is in a hurry."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.said: list[Said] = []

    def tell(self, topic: str, qos: int, kind: str) -> None:
        """With its next breath."""
        said = Said(self.name, topic, self._connection, len(self.said), qos, kind)
        if qos == 0 and not self.ready:
            return
        self.said.append(said)
        lasts = kind == "lasting"
        packet = Publish(topic, said.payload, qos, kind == "retained", message_expiry_s=10_000 if lasts else None)
        self.outbox.append(replace(packet, user_properties=(("persist", "true"),) if lasts else ()))

    def breathe(self) -> None:
        self._go_on()

    def _go_on(self) -> None:
        packets: list[Publish] = []
        while self.ready and self.outbox and len(self.in_flight) < IN_FLIGHT_MAX:
            packet = self.outbox.popleft()
            if packet.qos:
                packet = replace(packet, packet_id=self._free_id())
                self.in_flight[packet.packet_id] = packet
            elif said_in(packet.payload).connection != self._connection:
                # It was for a connection that is gone, and so is it.
                continue
            packets.append(packet)
        self._say(*packets)


class Reader(SimClient):
    def _on(self, packet: AnyPacket) -> list[AnyPacket]:
        if isinstance(packet, ConnAck) and not packet.session_present:
            self.received.clear()
        return super()._on(packet)

    def by_connection(self) -> Iterator[list[Publish]]:
        """What it heard, apart by connection."""
        heard: list[Publish] = []
        for packet in self.heard:
            if isinstance(packet, ConnAck):
                yield heard
                heard = []
            elif isinstance(packet, Publish):
                heard.append(packet)
        yield heard


class Mixture:
    def __init__(self, seed: int, faults: frozenset[str], brokers: str) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.faults = faults
        self.names = brokers
        edges = tuple(pairwise(brokers))
        self.stage = Stage(seed, edges, due=Due(5_000) if seed % 2 else None)
        self.exact, self.again = Reader(self.stage, "exact"), Reader(self.stage, "again")
        self.fleeting = [Reader(self.stage, f"fleeting{qos}", 0) for qos in range(3)]
        self.members = [Reader(self.stage, f"member{number}") for number in range(2)]
        self.writers = [Talker(self.stage, f"w{number}") for number in range(2)]
        self.mortal = SimClient(self.stage, "mortal")
        self.wills: list[bytes] = []
        self.last_round = 0
        """From which of their messages on the writers were not disturbed any more."""

    @property
    def readers(self) -> list[Reader]:
        return [self.exact, self.again, *self.fleeting, *self.members]

    @property
    def clients(self) -> list[SimClient]:
        return [*self.readers, *self.writers, self.mortal]

    def fail(self, why: str) -> AssertionError:
        return AssertionError(f"seed {self.seed}, {sorted(self.faults)} at {self.names}: {why}")

    # The play.

    def run(self, steps: int) -> None:
        for client in self.clients:
            self._connect(client)
        self._settle()
        self._subscribe()
        for _ in range(steps):
            self._speak()
            self._trouble()
            self.stage.run(self.rng.choice((0.0005, 0.003, 0.02, 0.2)))
        self._calm_down()
        self._last_round()

    def _connect(self, client: SimClient, broker: str | None = None) -> None:
        broker = broker or self.rng.choice(self.names)
        will = None
        if client is self.mortal and self.stage.brokers[broker].alive:
            said = Said("mortal", "k/will", 0, len(self.wills), 2, "will")
            self.wills.append(said.payload)
            will = Will("k/will", said.payload, 2)
        client.connect(broker, will=will)

    def _subscribe(self) -> None:
        self.exact.subscribe("k/#", 2)
        self.again.subscribe("k/+", 1)
        self._want_what_is_fleeting()
        for number, member in enumerate(self.members):
            member.subscribe(f"$share/{GROUP}/k/#", 2 if number else 1)
        self._settle()
        self.stage.run(1.0)

    def _want_what_is_fleeting(self) -> None:
        for qos, reader in enumerate(self.fleeting):
            if reader.ready and reader.wanted.get("f/#") != len(reader.connacks):
                reader.wanted["f/#"] = len(reader.connacks)
                reader.subscribe("f/#", qos)

    def _speak(self) -> None:
        for writer in self.writers:
            for _ in range(self.rng.choice((0, 1, 1, 6))):
                topic, qos = self.rng.choice(TOPICS), self.rng.choice((0, 0, 1, 2))
                # A run is of one topic and QoS.
                for _ in range(self.rng.choice((1, 1, 4))):
                    writer.tell(topic, qos, self.rng.choice(KINDS) if topic.startswith("k/") else "plain")
            writer.breathe()

    def _trouble(self) -> None:
        rng = self.rng
        if "roam" in self.faults and rng.random() < 0.2:
            self._connect(rng.choice(self.clients))
        if "drop" in self.faults and rng.random() < 0.1:
            rng.choice(self.clients).drop(noticed=rng.random() < 0.5)
        if "cut" in self.faults and len(self.names) > 1 and rng.random() < 0.1:
            self.stage.unlink(*rng.choice(self.stage.edges))
        if "kill" in self.faults and rng.random() < 0.05:
            broker = self.stage.brokers[rng.choice(self.names)]
            if broker.alive:
                broker.kill()
        if rng.random() < 0.3:
            self.stage.heal()
        if rng.random() < 0.5:
            for client in self.clients:
                if client._up is None:
                    self._connect(client)
        self._want_what_is_fleeting()

    def _settle(self) -> None:
        for _ in range(400):
            self.stage.run(0.25)
            self._want_what_is_fleeting()
            if all(client.settled for client in self.clients):
                return
            for client in self.clients:
                if client._up is None:
                    self._connect(client, client.broker)
        raise self.fail(f"{[client.name for client in self.clients if not client.settled]} did not come to rest")

    def _calm_down(self) -> None:
        self.stage.heal()
        self._settle()
        self.stage.run(3.0)
        self._settle()

    def _last_round(self) -> None:
        """Without faults: nothing may be missing of it."""
        self.last_round = max(len(writer.said) for writer in self.writers)
        for writer in self.writers:
            writer.said += [Said("nobody", "-", 0, 0, 0, "-")] * (self.last_round - len(writer.said))
        for _ in range(12):
            self._speak()
            self.stage.run(self.rng.choice((0.0005, 0.003, 0.02)))
        self._settle()
        self.mortal.drop(noticed=True)
        self.stage.run(3.0)

    # What must hold.

    def check(self) -> None:
        self._check_sessions()
        self._check_group()
        for reader in self.readers:
            self._check_order(reader)
            self._check_last_round(reader)
        self._check_wills()
        self._check_brokers()

    def _messages(self, writer: Talker, topics: str, qos: tuple[int, ...]) -> list[Said]:
        return [each for each in writer.said if each.topic.startswith(topics) and each.qos in qos]

    def _taken(self, reader: SimClient, writer: Talker) -> list[Said]:
        """Each as often as it was taken; with QoS 1, and of what was said so, once."""
        found = (said_in(each) for each in reader.taken)
        return [each for each in found if each.writer == writer.name]

    def _check_sessions(self) -> None:
        """Nothing that was acknowledged is lost, and all of a writer is in order."""
        for reader in (self.exact, self.again):
            for writer in self.writers:
                taken = self._taken(reader, writer)
                kept = list(dict.fromkeys(each for each in taken if each.qos))
                wanted = self._messages(writer, "k/", (1, 2))
                if kept != wanted:
                    missing = [each.number for each in wanted if each not in kept]
                    raise self.fail(
                        f"{reader.name} of {writer.name}: missing {missing}, got {[each.number for each in kept]}"
                    )
                twice = [each for each, count in Counter(taken).items() if count > 1]
                if twice:
                    raise self.fail(f"{reader.name} got twice: {twice}")

    def _check_group(self) -> None:
        taken = Counter(said_in(each) for member in self.members for each in member.taken)
        for writer in self.writers:
            for each in self._messages(writer, "k/", (1, 2)):
                if not taken[each]:
                    raise self.fail(f"nobody of the group got {each}")
            for each in self._messages(writer, "k/", (2,)):
                if taken[each] > 1:
                    raise self.fail(f"the group got {taken[each]} times: {each}")

    def _check_order(self, reader: Reader) -> None:
        """Of one connection to another: each QoS of a topic. What lasts may come when its reader is there again."""
        seen: dict[Said, None] = {}
        for heard in reader.by_connection():
            last: dict[tuple[str, str, int, int], int] = {}
            for packet in heard:
                said = said_in(packet.payload)
                if packet.retain or said.kind in ("lasting", "will") or said in seen:
                    continue
                if said.qos == 1 and reader not in (self.exact, self.again):
                    # Another member, or an earlier session, may have had it before its writer said it once more.
                    continue
                seen[said] = None
                key = said.writer, said.topic, said.qos, said.connection if said.qos == 0 else 0
                if said.number < last.get(key, -1):
                    raise self.fail(f"{reader.name} got {said} behind number {last[key]}")
                last[key] = said.number

    def _check_last_round(self, reader: Reader) -> None:
        if reader in self.members:
            return
        topics = "f/" if reader in self.fleeting else "k/"
        for writer in self.writers:
            wanted = [each for each in self._messages(writer, topics, (0, 1, 2)) if each.number >= self.last_round]
            taken = [each for each in self._taken(reader, writer) if each.number >= self.last_round]
            for qos in range(3):
                of_qos = [each for each in taken if each.qos == qos]
                for topic in TOPICS:
                    got = [each.number for each in of_qos if each.topic == topic]
                    said = [each.number for each in wanted if (each.qos, each.topic) == (qos, topic)]
                    if got != said:
                        raise self.fail(f"{reader.name} of {writer.name}, {topic}, QoS {qos}: {got} for {said}")

    def _check_wills(self) -> None:
        taken = Counter(each for each in self.exact.taken if each in self.wills)
        if any(count > 1 for count in taken.values()):
            raise self.fail(f"a will came twice: {taken}")
        if not taken[self.wills[-1]]:
            raise self.fail("the last will did not come")

    def _check_brokers(self) -> None:
        brokers = list(self.stage.brokers.values())
        kept = [
            {
                topic: message.payload
                for topic, (_, message) in each.server.core.border.retained.of.items()
                if topic[0] == "k"
            }
            for each in brokers
        ]
        if any(each != kept[0] for each in kept):
            raise self.fail(f"brokers retain different messages: {kept}")
        for each in brokers:
            server = each.server
            for _ in range(1_000):
                if server.write_ahead.settled:
                    break
                self.stage.run(0.001)
            if server.ahead.waiting or server.ahead.marked or not server.write_ahead.settled:
                raise self.fail(f"something waits for the disk of {each.name} for ever")
            known = server.core.border.groups.members.get((GROUP, "k/#"), {})
            if known != {member.name: True for member in self.members}:
                raise self.fail(f"{each.name} has as members {known}")
