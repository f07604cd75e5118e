"""In which form a client sees a message, by its subscriptions."""

from collections.abc import Iterable, Sequence

from roamcast.broker.mqtt.events import asks_origin
from roamcast.broker.session import Session
from roamcast.mqtt.messages import Form, Message
from roamcast.mqtt.messages import Subscription as Asked

RETAINED = "\0retained"
"""Stands first among the subscriptions of a delivery that was there before them."""


def asked_by(session: Session, names: Iterable[str]) -> list[Asked]:
    """Those of its subscriptions with these names that are there still."""
    known, told = session.subscriptions, session.attachment.told
    if session.attachment.claim is not None and told is not None:
        # It has gone on, and wants nothing here any more: what was held for it is seen as its last broker said.
        known = {each.name: each for each in told.interests}
    asked = [known[name].asked for name in names if name in known]
    return [each for each in asked if each is not None]


def form_of(message: Message, asked: Sequence[Asked], retained: bool = False) -> Form:
    """How a client sees a message: as its subscriptions say, or as it was published if they are gone."""
    if len(asked) == 1 and not (retained or message.retain):
        # Nearly always.
        [only] = asked
        ids = () if only.subscription_id is None else (only.subscription_id,)
        return Form(min(message.qos, only.qos), False, ids, bool(only.user_properties) and asks_origin(asked))
    granted = max((each.qos for each in asked), default=message.qos)
    retain = retained or (message.retain and any(each.retain_as_published for each in asked))
    all_ids = tuple(sorted({each.subscription_id for each in asked if each.subscription_id is not None}))
    return Form(min(message.qos, granted), retain, all_ids, asks_origin(asked))
