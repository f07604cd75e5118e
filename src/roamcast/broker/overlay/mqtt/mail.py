"""What broker processes of an overlay say to each other through it: in order, once, and again where a link has lost
it (O5).

Between a guest and a home broker of another process everything goes this way (`Upward`, `Downward`). A guest's name
does not say where it is. Its home broker learns that from what the guest says, and takes it along when the session
gets another home broker; who has let a guest go says where it went (`Absent`).
"""

from collections import deque
from typing import TYPE_CHECKING

from roamcast.broker.mqtt.effects import Remark
from roamcast.broker.overlay.messages import Aside, ClientAddress, Met, NotHome
from roamcast.broker.overlay.mqtt import between
from roamcast.broker.overlay.mqtt.between import Absent, Carried, Claim, Downward, Said, Upward, Withheld
from roamcast.broker.overlay.mqtt.underlay import CODEC
from roamcast.node.boundary import Does, LinkDown, Message, Received
from roamcast.node.codec import BadMessage, Codec

if TYPE_CHECKING:
    from roamcast.broker.overlay.mqtt.guests import Guests

ADDRESSES_MAX = 100_000


class Mail:
    def __init__(self, guests: "Guests") -> None:
        self.guests = guests
        self.border = guests.border
        self.host = guests.border.host
        self.broker = guests.broker
        self.broker.aside = self._came
        self.addresses: dict[str, ClientAddress] = {}
        """Where guests of other processes are who have spoken to the broker here, or have left this process."""
        self._unread: deque[tuple[bytes, str]] = deque()

    # To other processes.

    def say(self, process: str, said: Said) -> None:
        try:
            data = between.CODEC.encode(said)
        except BadMessage as problem:
            self.border.emit(Remark("unsendable", f"{process}: {problem}"))
            return
        self._perform(self.broker.brokers.say(self.border.now_us, process, Aside(data)))

    def greet(self, broker: str) -> None:
        """Says something to a broker, for it to be given up if it does not answer."""
        flow = self.broker.brokers.flows.of.get(broker)
        if flow is None or not flow.waiting:
            self._perform(self.broker.brokers.say(self.border.now_us, broker, Met()))

    def hasten(self, broker: str) -> None:
        """Sends at once what waits for a broker that was not reached for a while."""
        flow = self.broker.brokers.flows.of.get(broker)
        if flow is not None and len(flow.waiting) > 1:
            self._perform(self.broker.brokers.flows.resend(self.border.now_us, broker))

    def _perform(self, effects: list[Does]) -> None:
        for effect in effects:
            self.guests.perform(self.host, effect)

    def from_guest(self, name: str, since_us: int, home: str, message: Message) -> None:
        if home in self.broker.brokers.flows.lost:
            self.guests.later(name, Received(NotHome(), home))
        else:
            self.say(home, Upward(name, since_us, CODEC.encode(message)))

    def to_guest(self, name: str, message: Message) -> None:
        process = self.address_of(name)
        if process is None or process == self.host or self.broker.brokers.flows.full(process):
            self.guests.later(self.host, LinkDown(name))
        else:
            self.say(process, Downward(name, CODEC.encode(message)))

    # From them.

    def _came(self, now_us: int, data: bytes, sender: str) -> list[Does]:
        """It is read when the broker is done with what it is at."""
        self._unread.append((data, sender))
        return []

    def read(self) -> None:
        while self._unread:
            data, sender = self._unread.popleft()
            said = self._decoded(between.CODEC, data, sender)
            match said:
                case Upward():
                    self._heard_guest(said, sender)
                case Downward():
                    self._heard_home(said, sender)
                case Absent():
                    self._missed_guest(said, sender)
                case Claim():
                    self.guests.following.claimed(said, sender)
                case Carried():
                    self.guests.following.carried(said)
                case Withheld():
                    self.guests.following.withheld(self.border.now_us, said)

    def _heard_guest(self, said: Upward, sender: str) -> None:
        known = self.addresses.get(said.name)
        if known is not None and said.since_us < known.since_us:
            # It was said before the client went to where it is now.
            return
        self.remember(said.name, ClientAddress(sender, said.since_us))
        hops = 1 + (self.broker.brokers.path_length(sender, self.host) or 1)
        message = self._decoded(CODEC, said.data, sender)
        if message is not None:
            self.guests.later(self.host, Received(message, said.name, None, hops))

    def _heard_home(self, said: Downward, sender: str) -> None:
        if said.name not in self.guests.guests:
            self.say(sender, Absent(said.name, self.addresses.get(said.name)))
            return
        message = self._decoded(CODEC, said.data, sender)
        if message is not None:
            self.guests.later(said.name, Received(message, sender))

    def _missed_guest(self, said: Absent, sender: str) -> None:
        if self.address_of(said.name) == sender:
            self.guests.later(self.host, LinkDown(said.name))
            if said.address is not None:
                self.remember(said.name, said.address)

    def _decoded(self, codec: Codec, data: bytes, sender: str) -> Message | None:
        try:
            return codec.decode(data)
        except BadMessage as problem:
            self.border.emit(Remark("bad_link_message", f"{sender}: {problem}"))
            return None

    # Where guests are.

    def address_of(self, name: str) -> str | None:
        session, known = self.broker.clients.sessions.get(name), self.addresses.get(name)
        told = None if session is None else session.address
        latest = max((each for each in (told, known) if each), key=lambda each: each.since_us, default=None)
        return None if latest is None else latest.broker

    def remember(self, name: str, address: ClientAddress) -> None:
        self.addresses.pop(name, None)
        self.addresses[name] = address
        if len(self.addresses) > ADDRESSES_MAX:
            del self.addresses[next(iter(self.addresses))]
        session = self.broker.clients.sessions.get(name)
        if session is not None:
            session.address = address

    def is_here(self, name: str) -> int:
        """From now on; since when it was where it was last, as far as is known."""
        known, session = self.addresses.pop(name, None), self.broker.clients.sessions.get(name)
        if session is not None:
            session.address = None
        return 0 if known is None else known.since_us
