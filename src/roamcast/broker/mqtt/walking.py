"""The traveller of Rebeca, played for an MQTT client by the broker that it is connected to (R4, R5, R7).

What a client's filters read of itself is known from its reports. When that changes, brokers on the way to producers
are told, so that each passes on what the client may want by the time an event arrives (`logical/following.py`). The
broker measures how long the client stays at a place; that goes along when the client comes to another one.

While a client is away nothing of it changes: its events are judged by its last report.
"""

from typing import TYPE_CHECKING

from roamcast.broker.logical.params import LogicalParams
from roamcast.broker.logical.template import NOWHERE
from roamcast.broker.logical.traveller import Traveller
from roamcast.broker.session import Session
from roamcast.broker.transfer import Interest

if TYPE_CHECKING:
    from roamcast.broker.mqtt.mqtt_border import MqttBorder


class Walking:
    def __init__(self, border: "MqttBorder") -> None:
        self.border = border
        self.travellers: dict[str, Traveller] = {}
        """Of clients with subscriptions that are followed."""

    def adopt(self, params: LogicalParams) -> None:
        for traveller in self.travellers.values():
            traveller.adopt(params)

    def follow(self, session: Session, interest: Interest) -> None:
        """It has subscribed to what depends on it."""
        traveller = self.travellers.get(session.client)
        if traveller is None:
            params = self.border.params.logical
            traveller = self.travellers[session.client] = Traveller(params, session.residence_us)
            traveller.moved(self.border.now_us, session.context)
        traveller.follow_also(interest.wanted)
        session.client_state = traveller.state() or NOWHERE
        session.stated_us = self.border.now_us

    def moved(self, session: Session) -> None:
        """It has reported itself."""
        traveller = self.travellers.get(session.client)
        if traveller is None:
            return
        traveller.moved(self.border.now_us, session.context)
        state = traveller.state()
        if state is not None and state != session.client_state:
            session.stated_us = self.border.now_us
            self.border.finish(self.border.report(session, state))

    def forget(self, client: str) -> None:
        self.travellers.pop(client, None)
