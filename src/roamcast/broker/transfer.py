"""A session on its way to another broker (R3, P-24): what it is, as one value, without its deliveries."""

import msgspec
from msgspec import Struct

from roamcast.broker.logical.template import DURATION_US_MAX
from roamcast.broker.window import NUMBER_MAX, WindowState
from roamcast.model.context import Context
from roamcast.model.fence import Stay
from roamcast.model.subscription import Subscription
from roamcast.mqtt import messages
from roamcast.mqtt.packets import PACKET_ID_MAX

_encoder = msgspec.msgpack.Encoder()


class BadTransfer(ValueError):
    """What another broker says cannot be this client's session."""


class Interest(Struct, frozen=True, array_like=True):
    """A subscription of a client: in the model's words and, where it was made by MQTT, as it was asked for."""

    wanted: Subscription
    asked: messages.Subscription | None = None
    size_bytes: int = 0
    """What it takes between brokers."""

    @property
    def name(self) -> str:
        """By which its client knows it."""
        return self.wanted.id if self.asked is None else self.asked.filter.text


class FenceStay(Struct, frozen=True, array_like=True):
    """What is known of a client and a fence that it is in, or may be."""

    since_us: int
    """When the fence was defined: of another fence of this name nothing is known."""
    stay: Stay


def interest_of(wanted: Subscription, asked: messages.Subscription) -> Interest:
    return Interest(wanted, asked, len(_encoder.encode(asked)) + len(_encoder.encode(wanted)))


class SessionState(Struct, frozen=True, array_like=True):
    epoch: int = 0
    published: int = 0
    """The serial of the client's last publication that was accepted."""
    missing: bool = False
    """Whether a part of what was kept did not come, nobody knows how much, and the client was not told yet."""
    window: WindowState = WindowState()
    user: str | None = None
    """Whose session it is."""
    context: Context | None = None
    """Where and what the client is, as it reported last."""
    interests: tuple[Interest, ...] = ()
    received: tuple[int, ...] = ()
    """Packet identifiers of QoS 2 messages from the client that it has not released."""
    modulators: tuple[tuple[str, bytes], ...] = ()
    """By subscription, what its modulator remembers."""
    seen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """By the id of an event that lasts, the subscriptions that have had it."""
    stays: bool = False
    """The session ends with its connection, and so when its client comes to another broker, as it would if the old
    one had noticed before."""
    observed_through: int = 0
    """The last delivery that observers were told of."""
    residence_us: int = 0
    """How long the client stays at a place, where brokers follow it."""
    fence_stays: tuple[tuple[str, FenceStay], ...] = ()
    """By the name of a fence."""
    fixed_us: int = 0
    """When its client's last place was taken in."""


def check(state: SessionState, client: str) -> None:
    """Another broker may be of another version, or mistaken: what it says of one client must not touch others. Raises
    `BadTransfer`."""
    if state.context is not None and state.context.host != client:
        raise BadTransfer(f"the session of '{state.context.host}'")
    if any(each.wanted.subscriber != client for each in state.interests):
        raise BadTransfer("subscriptions of another client")
    if not all(1 <= each <= PACKET_ID_MAX for each in state.received):
        raise BadTransfer("packet identifiers that are none")
    if not 0 <= state.residence_us <= DURATION_US_MAX:
        raise BadTransfer(f"stays of {state.residence_us} us")
    window = state.window
    if not all(0 <= each <= NUMBER_MAX for each in (window.next_number, window.sent_through, *window.received)):
        raise BadTransfer("numbers of deliveries that are none")
