"""Trials of advertisements (R1): producers announce before they publish, mostly, and now and then announce no more.

Everything that a trial checks must hold with advertisements as it does without.
"""

from roamcast.model.event import Announcement, EventType
from roamcast.model.values import Point, Value
from roamcast.node.boundary import Announce, Unannounce
from roamcast.papers.chaos import SUBJECT, Trial
from roamcast.papers.chaos_logical import LogicalTrial


class AnnouncingTrial(Trial):
    def announce(self, client: str, subject: str = SUBJECT) -> None:
        announcement = Announcement(f"{client}/{subject}", EventType(subject, {}), client, None, Point(0, 0))
        self.world.give(client, Announce(announcement))

    def unannounce(self, client: str, subject: str = SUBJECT) -> None:
        self.world.give(client, Unannounce(f"{client}/{subject}"))

    def publish(self, client: str, content: dict[str, Value] | None = None) -> str:
        if self.rng.random() < 0.8:
            self.announce(client)
        event_id = super().publish(client, content)
        if self.rng.random() < 0.4:
            self.unannounce(client)
        return event_id


class AnnouncingWalkers(AnnouncingTrial, LogicalTrial):
    """Who walk and roam as well (R4)."""
