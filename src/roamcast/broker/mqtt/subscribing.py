"""What clients here want, and where they are."""

from typing import TYPE_CHECKING

from roamcast.broker.mqtt.audience import Audience
from roamcast.broker.mqtt.content import REPORT_TOPIC
from roamcast.broker.mqtt.effects import Grant, Remark, Revoke
from roamcast.broker.mqtt.giving import PORTION
from roamcast.broker.mqtt.groups import Groups
from roamcast.broker.mqtt.inputs import Asked, Forbidden, Reported, ReportedTogether, Withdrew
from roamcast.broker.mqtt.properties import BadProperty, is_common, subscription_of
from roamcast.broker.mqtt.travelling import Travelling
from roamcast.broker.session import Session
from roamcast.broker.transfer import Interest, interest_of
from roamcast.model.context import Context
from roamcast.model.filter.explanation import needs_of
from roamcast.model.subscription import Subscription as Wanted
from roamcast.model.values import FOREVER_US, BadValue
from roamcast.mqtt.messages import Subscription
from roamcast.mqtt.reasons import Reason

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder

GRANTED = (Reason.SUCCESS, Reason.GRANTED_QOS_1, Reason.GRANTED_QOS_2)
ALWAYS, IF_NEW, NEVER = 0, 1, 2
"""When a subscription gets what was retained before it (MQTT 5, section 3.8.3.1)."""


SUBSCRIPTIONS_BYTES_MAX = 1_000_000
MODULATORS_MAX = 16
EXPIRY_SIGN = "\0"
"""Between client and topic filter in the name of a timer: neither can hold it."""


class NoRoom(Exception):
    """The session has as much as it may; the message says of what."""


def expiry_timer(client: str, text: str) -> str:
    return f"expiry:{client}{EXPIRY_SIGN}{text}"


class Subscribing:
    def __init__(self, border: "MqttBorder", audience: Audience, groups: Groups, travelling: Travelling) -> None:
        self.border = border
        self.travelling = travelling
        self.groups = groups
        self.audience = audience

    def subscribe(self, given: Asked) -> None:
        """As if each of its subscriptions had come alone, but for one answer (MQTT 5, section 3.8.4)."""
        session = self.border.sessions.get(given.client)
        if session is None:
            return
        reasons: list[Reason] = []
        text: str | None = None
        portion = PORTION
        for asked in map(self.granted, given.subscriptions):
            if asked.filter.text in given.refused:
                reasons.append(given.refused[asked.filter.text])
                self._refused(session, f"{asked.filter.text}: {reasons[-1].name.lower().replace('_', ' ')}")
                continue
            try:
                wanted = self._wanted(session, asked)
                interest = interest_of(wanted, asked)
                self._check_room(session, interest)
            except (BadProperty, BadValue) as problem:
                reasons.append(Reason.IMPLEMENTATION_SPECIFIC_ERROR)
                text = f"{asked.filter.text}: {problem}"
                self._refused(session, text)
                continue
            except NoRoom as problem:
                reasons.append(Reason.QUOTA_EXCEEDED)
                text = str(problem)
                self._refused(session, f"{asked.filter.text}: {text}")
                continue
            reasons.append(GRANTED[asked.qos])
            if lacks_position(session, wanted):
                text = f"{asked.filter.text}: nothing matches until you say where you are, on {REPORT_TOPIC}"
                self.border.emit(Remark("no_position", f"{session.client} asks for {asked.filter.text}"))
            replaced = self.add(session, interest)
            if self._gets_retained(asked, replaced):
                portion = self.border.giving.begin(session, asked, portion)
        self.answer(session, Grant(given.client, given.packet_id, tuple(reasons), text))

    def _refused(self, session: Session, why: str) -> None:
        """Many clients show nobody the text of SUBACK."""
        self.border.emit(Remark("subscription_refused", f"{session.client}: {why}"))

    def granted(self, asked: Subscription) -> Subscription:
        """What a client gets of what it asks for: all of it."""
        return asked

    def answer(self, session: Session, grant: Grant) -> None:
        self.border.emit(grant)

    def _wanted(self, session: Session, asked: Subscription) -> Wanted:
        wanted = subscription_of(session.client, asked, self.border.now_us, self.border.space)
        if wanted.modulator and asked.filter.text not in session.modulators:
            session.modulators.make(wanted.modulator)
        return wanted

    def _check_room(self, session: Session, interest: Interest) -> None:
        """All of a session's subscriptions must fit into one message between brokers."""
        if self.border.neighbours.router.full():
            raise NoRoom("this broker has as many subscriptions as it may")
        name, limits = interest.name, self.border.limits
        before = session.subscriptions.get(name)
        if before is None and len(session.subscriptions) >= limits.subscriptions_max:
            raise NoRoom(f"at most {limits.subscriptions_max} subscriptions")
        others_bytes = session.subscriptions_bytes - (0 if before is None else before.size_bytes)
        if others_bytes + interest.size_bytes > SUBSCRIPTIONS_BYTES_MAX:
            raise NoRoom(f"all subscriptions of a session have at most {SUBSCRIPTIONS_BYTES_MAX} bytes")
        modulators = session.modulators
        if interest.wanted.modulator and name not in modulators and len(modulators) >= MODULATORS_MAX:
            raise NoRoom(f"at most {MODULATORS_MAX} modulators")

    def add(self, session: Session, interest: Interest) -> bool:
        """Whether it took the place of another on the same filter."""
        assert interest.asked is not None
        name, asked, wanted = interest.name, interest.asked, interest.wanted
        before = session.subscriptions.get(name)
        if before is not None and before.asked is not None:
            self.audience.unsubscribe(session.client, before.asked)
            self.groups.left(session.client, () if is_common(asked) else (before.asked,))
        session.modulators.put(name, wanted.modulator)
        self._enter(session, interest)
        self.border.finish(self.border.subscribe(session, interest))
        self.border.observation.subscribed(asked, wanted)
        self.groups.joined(session.client, (asked,), True)
        return before is not None

    def _enter(self, session: Session, interest: Interest) -> None:
        if interest.asked is not None:
            self._expire_later(session, interest.name, interest.wanted)
            self.audience.subscribe(session.client, interest.asked, interest.wanted)

    def unsubscribe(self, given: Withdrew) -> None:
        session = self.border.sessions.get(given.client)
        if session is None:
            return
        reasons: list[Reason] = []
        for name in given.filters:
            known = name in session.subscriptions
            reasons.append(Reason.SUCCESS if known else Reason.NO_SUBSCRIPTION_EXISTED)
            if known:
                self._withdraw(session, name)
        self.border.emit(Revoke(given.client, given.packet_id, tuple(reasons)))

    def forbid(self, given: Forbidden) -> None:
        session = self.border.sessions.get(given.client)
        if session is None:
            return
        for name in given.filters:
            if name in session.subscriptions:
                self._withdraw(session, name)
                self.border.emit(Remark("subscription_forbidden", f"{session.client}: {name}"))
        for number, delivery in session.window.after(given.sent_through):
            names = set(delivery.subscriptions)
            if names.intersection(given.filters) and names.isdisjoint(session.subscriptions):
                session.window.finish(number)
        if given.will:
            session.will = None

    def _withdraw(self, session: Session, name: str) -> None:
        interest = session.subscriptions[name]
        self._forget(session, name)
        if interest.asked is not None:
            self.audience.unsubscribe(session.client, interest.asked)
            self.groups.left(session.client, (interest.asked,))
            self.border.observation.unsubscribed(interest.asked, interest.wanted)

    def _forget(self, session: Session, name: str) -> None:
        self.border.giving.cancel(session.client, name)
        session.forget_subscription(name)
        self.border.timers.cancel(expiry_timer(session.client, name))
        self.border.finish(self.border.unsubscribe(session, name))

    def _expire_later(self, session: Session, text: str, wanted: Wanted) -> None:
        timer = expiry_timer(session.client, text)
        if wanted.expires_us == FOREVER_US:
            self.border.timers.cancel(timer)
        else:
            # It still holds at the very moment, as the definition of matching has it.
            self.border.timers.set(timer, wanted.expires_us + 1)

    def expired(self, name: str) -> None:
        """A subscription's time is over: it goes as if its client had withdrawn it."""
        client, _, text = name.partition(EXPIRY_SIGN)
        session = self.border.sessions.get(client)
        if session is not None and text in session.subscriptions:
            self._withdraw(session, text)

    def reported(self, given: Reported | ReportedTogether) -> None:
        if isinstance(given, Reported):
            self.moved(given.context)
            return
        for context in given.contexts:
            self.moved(context, judged=True)

    def moved(self, context: Context, judged: bool = False) -> None:
        """`judged` says that it is known to pass no fence."""
        session = self.border.sessions.get(context.host)
        if session is not None:
            before, session.context = session.context, context
            if self.border.positions is not None:
                self.border.positions.moved(before, context)
            self.audience.moved(context, self.border.has_neighbours())
            is_fix = (before.at_us, before.position) != (context.at_us, context.position)
            self.border.observation.moved(context, is_fix)
            self.border.walking.moved(session)
            self.travelling.moved(session)
            if judged:
                self.border.fencing.passed_over(session, before, context)
            else:
                self.border.fencing.moved(session, before, context)

    def welcome(self, session: Session) -> None:
        """A client that was here before, or elsewhere: what it wants is known."""
        self.audience.moved(session.context)
        for interest in session.subscriptions.values():
            self._enter(session, interest)

    def forget(self, session: Session) -> None:
        self.border.giving.forget(session.client)
        for text in self.audience.texts_of(session.client):
            self.border.timers.cancel(expiry_timer(session.client, text))
        self.audience.forget(session.client)

    def realign(self, session: Session) -> None:
        """What its last border said in the end may differ from what it had said first: the client was still there."""
        told, session.attachment.told = session.attachment.told, None
        if told is None:
            return
        self.audience.moved(session.context)
        self.border.walking.moved(session)
        now_wanted = {each.name: each for each in told.interests}
        for name in [each for each in session.subscriptions if each not in now_wanted]:
            self.audience.remove(session.client, name)
            self._forget(session, name)
        for name, interest in now_wanted.items():
            known = session.subscriptions.get(name)
            if known is None or (known.asked, known.wanted) != (interest.asked, interest.wanted):
                self._take_over(session, interest)

    def _take_over(self, session: Session, told: Interest) -> None:
        """It was granted elsewhere, to last for as long as was said there. What is over, or finds no room here, goes
        as if its client had withdrawn it."""
        if told.asked is None:
            return
        interest = interest_of(told.wanted, told.asked)
        try:
            self._check_room(session, interest)
        except NoRoom as problem:
            self.border.emit(Remark("subscription_dropped", f"{session.client}: {told.name}: {problem}"))
            self._lapse(session, interest)
            return
        if told.wanted.expires_us < self.border.now_us:
            self._lapse(session, interest)
            return
        self._enter(session, interest)
        self.border.finish(self.border.subscribe(session, interest))

    def _lapse(self, session: Session, interest: Interest) -> None:
        self.audience.remove(session.client, interest.name)
        if interest.asked is not None:
            self.groups.left(session.client, (interest.asked,))
        self._forget(session, interest.name)

    def _gets_retained(self, asked: Subscription, replaced: bool) -> bool:
        if asked.filter.group is not None or asked.retain_handling == NEVER:
            return False
        return not (replaced and asked.retain_handling == IF_NEW)


def lacks_position(session: Session, wanted: Wanted) -> bool:
    """Whether a filter asks where its client is, which has never said so."""
    return session.context.position is None and "position" in needs_of(wanted.filter)
