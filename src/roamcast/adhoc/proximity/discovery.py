"""Proximity discovery (PDS, section 4.5): which proximities are relevant where a node is, and whose groups it joins.

Every node, whatever it produces or consumes, keeps the list of proximities that contain it. It learns of them from
beacons on the discovery group, and it is a member of a proximity's group while it is inside and interested (S6).

"Inside" means inside or, for a node or proximity that moves, about to be inside before the next beacon
(`discovery_lookahead_periods`): a group is joined in time, while delivery and forwarding look at the very moment.

| what happens | to the list |
|---|---|
| a local announcement | enters it, and stays until it is withdrawn |
| a beacon, this node inside | enters or is renewed; of a second structure for a known subject: refused (S1), |
| | while the first has been heard of within `partition_periods` |
| a beacon, this node outside | leaves it |
| this node moves, or a period passes | a remote proximity leaves it if this node left the area (4.5.1); |
| | a mobile one is taken to be where its last beacon leads, by the velocity in it |
| silence for `announcements_missed_max` periods | a remote one leaves it; the paper has no such rule |
| a `Withdrawn` | leaves it, until a beacon of a later round, or any after `partition_periods` |

A local stationary proximity that the producer has left is not advertised until it is back (4.5.2, `is_local_here`).
The list is also the type repository: the type of a subject is that of its first proximity. Wanted regions of
consumers (S14) live in the same list; members of theirs are also the producers that announced the subject.
"""

from roamcast.adhoc.proximity.forwarding import carried_on, holds, nearly_holds
from roamcast.adhoc.proximity.interests import Interests
from roamcast.adhoc.proximity.messages import Announced, Wanted, Withdrawn
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.adhoc.proximity.relevant import Gone, Heard, Relevant
from roamcast.model.context import Context
from roamcast.model.event import Announcement, BadEvent, Event, EventType
from roamcast.model.region import Anchored, Region
from roamcast.model.space import Space
from roamcast.model.subject import is_pattern, subject_matches
from roamcast.model.subscription import Subscription
from roamcast.model.values import Point, Velocity
from roamcast.node.boundary import Does, JoinGroup, LeaveGroup, Note


class Discovery:
    def __init__(self, params: ProximityParams, space: Space) -> None:
        self.params = params
        self.space = space
        self.interests = Interests()
        self.relevant: dict[str, Relevant] = {}
        self.by_subject: dict[str, dict[str, Relevant]] = {}
        self.wanted: dict[str, Relevant] = {}
        self.announcements: dict[str, Announcement] = {}
        self.announced: dict[str, dict[str, Announcement]] = {}
        """Local announcements by subject."""
        self.groups: dict[int, dict[str, None]] = {}
        """The groups this node has joined, each with the proximities it did it for."""
        self.withdrawn: dict[str, Gone] = {}
        self.unplaced: dict[str, Subscription] = {}
        """Subscriptions with a region of their own that wait for the first position of this host."""
        self.left: list[str] = []
        """Proximities that this node is no longer a member of; whoever keeps something for them takes them out."""
        self._wants: dict[str, list[Relevant]] = {}

    # The application's side.

    def announce(self, announcement: Announcement) -> list[Does]:
        if announcement.id in self.announcements:
            return [Note("announcement_refused", announcement.id)]
        if len(self.announcements) >= self.params.announcements_max:
            return [Note("announcement_refused", announcement.id)]
        subject = announcement.event_type.subject
        effects: list[Does] = []
        for other in list(self.by_subject.get(subject, {}).values()):
            # What the application says itself counts for more than what was heard.
            if other.event_type != announcement.event_type:
                if other.local:
                    return [Note("type_mismatch", subject)]
                effects += [Note("type_mismatch", subject), *self.drop(other)]
        self.announcements[announcement.id] = announcement
        self.announced.setdefault(subject, {})[announcement.id] = announcement
        if announcement.proximity is not None:
            return effects + self._enter(self._entry_of(announcement, local=True))
        self._wants.clear()
        return effects + self._reckon_all(list(self.wanted.values()))

    def unannounce(self, announcement_id: str) -> list[Does]:
        announcement = self.announcements.pop(announcement_id, None)
        if announcement is None:
            return [Note("not_announced", announcement_id)]
        subject = announcement.event_type.subject
        del self.announced[subject][announcement_id]
        if not self.announced[subject]:
            del self.announced[subject]
        entry = self.relevant.get(announcement_id)
        if entry is not None:
            return self.drop(entry)
        self._wants.clear()
        return self._reckon_all(list(self.wanted.values()))

    def subscribe(self, subscription: Subscription, me: Context) -> list[Does]:
        if len(self.interests) >= self.params.subscriptions_max:
            return [Note("subscription_refused", subscription.id)]
        self.interests.add(subscription)
        region = subscription.publishers.region
        effects: list[Does] = []
        if region is not None and anchored_here(region, me.host):
            self.unplaced[subscription.id] = subscription
            effects = self.place(me)
        return effects + self._reckon_all(self.concerned(subscription.subject))

    def place(self, me: Context) -> list[Does]:
        """Enters the regions that consumers here want, as soon as it is known where here is."""
        effects: list[Does] = []
        if me.position is None:
            return effects
        for subscription in self.unplaced.values():
            region = subscription.publishers.region
            assert region is not None
            effects += self._enter(
                Relevant(
                    subscription.id,
                    subscription.subject,
                    region,
                    me.position,
                    None,
                    local=True,
                    period_us=self.params.announcement_period_us,
                )
            )
        self.unplaced.clear()
        return effects

    def unsubscribe(self, subscription_id: str) -> list[Does]:
        subscription = self.interests.remove(subscription_id)
        if subscription is None:
            return []
        self.unplaced.pop(subscription_id, None)
        entry = self.relevant.get(subscription_id)
        effects = self.drop(entry) if entry is not None else []
        return effects + self._reckon_all(self.concerned(subscription.subject))

    def announcement_for(self, event: Event) -> Announcement | None:
        """The announcement that an event fulfils: of its subject, with its audience's region as the proximity."""
        open_one = None
        for announcement in self.announced.get(event.subject, {}).values():
            if announcement.proximity is None:
                open_one = announcement
            elif announcement.proximity == event.audience.region:
                return announcement
        return open_one

    def wants_of(self, subject: str) -> list[Relevant]:
        """The regions in which consumers want this subject, their own and those heard of."""
        found = self._wants.get(subject)
        if found is None:
            found = [entry for entry in self.wanted.values() if subject_matches(entry.subject, subject)]
            self._wants[subject] = found
        return found

    def type_of(self, subject: str) -> EventType | None:
        for entry in self.by_subject.get(subject, {}).values():
            return entry.event_type
        for announcement in self.announced.get(subject, {}).values():
            return announcement.event_type
        return None

    def mistake_in(self, entry: Relevant, event: Event) -> str | None:
        """The run-time type check (4.4): groups may collide, events may be forged, and neither is delivered."""
        if entry.event_type is None:
            if not subject_matches(entry.subject, event.subject):
                return "stray_event"
        elif event.subject != entry.subject or event.audience.region != entry.region:
            return "stray_event"
        elif type(entry.region) is Anchored and entry.region.host != event.publisher.host:
            # Where a proximity is that moves is told by where its host was, which is the publisher.
            return "stray_event"
        known = entry.event_type or self.type_of(event.subject)
        if known is None:
            return None
        try:
            known.check(event.attributes)
        except BadEvent:
            return "type_mismatch"
        return None

    # What is heard.

    def is_old(self, now_us: int, beacon: Announced | Wanted) -> bool:
        """Whether a beacon is known already, was overtaken by a later one, or is of something withdrawn."""
        known: Relevant | Gone | None = self.relevant.get(beacon.proximity_id)
        if isinstance(known, Relevant) and known.local:
            return True
        known = known or self.withdrawn.get(beacon.proximity_id)
        if known is None or beacon.round > known.round:
            return False
        return now_us - known.heard_us <= self._recent_us(known)

    def _recent_us(self, known: "Relevant | Gone") -> int:
        """For so long after it was heard an announcement counts as recent; without signatures none holds longer."""
        return self.params.partition_periods * known.period_us

    def hear(self, now_us: int, here: Point, speed_mps: float, beacon: Announced | Wanted, age_us: int) -> Heard:
        entry_id = beacon.proximity_id
        known = self.relevant.get(entry_id)
        entry = self._entry_of(beacon.announcement if isinstance(beacon, Announced) else beacon)
        naval = carried_on(beacon.naval, beacon.velocity, age_us, self.space)
        if not self._is_near(entry, naval, beacon.velocity, here, speed_mps):
            return Heard(self.drop(known) if known is not None else [])
        effects: list[Does] = []
        if entry.event_type is not None and entry.event_type != (self.type_of(entry.subject) or entry.event_type):
            effects.append(Note("type_mismatch", entry.subject))
            if not self._gives_way(now_us, entry.subject):
                return Heard(effects)
            for other in list(self.by_subject[entry.subject].values()):
                effects += self.drop(other)
        known = self.relevant.get(entry_id)
        if known is not None and known is not entry:
            effects += self.drop(known)
            known = None
        if known is None and len(self.relevant) >= self.params.proximities_max:
            return Heard([*effects, Note("proximity_dropped", entry_id)])
        entry.naval, entry.velocity, entry.naval_us = naval, beacon.velocity, now_us
        entry.round, entry.heard_us = beacon.round, now_us
        if isinstance(beacon, Announced):
            entry.latest, entry.lasting = beacon.latest, beacon.lasting[: self.params.cached_events_max]
        if known is None:
            self.withdrawn.pop(entry_id, None)
            effects += self._enter(entry)
        return Heard(effects, entry, holds(entry.region, naval, here, self.space))

    def _gives_way(self, now_us: int, subject: str) -> bool:
        """Whether the structure that is known of a subject yields to another: all who announced it are silent."""
        return subject not in self.announced and all(
            now_us - other.heard_us > self._recent_us(other) for other in self.by_subject[subject].values()
        )

    def withdraw(self, now_us: int, said: Withdrawn) -> tuple[Relevant | None, list[Does]]:
        """Forgets a proximity, also for beacons of it that are still on their way."""
        entry = self.relevant.get(said.proximity_id)
        if entry is not None and (entry.local or said.round < entry.round):
            return None, []
        self.withdrawn.pop(said.proximity_id, None)
        if len(self.withdrawn) >= self.params.proximities_max:
            del self.withdrawn[next(iter(self.withdrawn))]
        period_us = self.params.announcement_period_us if entry is None else entry.period_us
        self.withdrawn[said.proximity_id] = Gone(said.round, now_us, period_us)
        return (entry, self.drop(entry)) if entry is not None else (None, [])

    # Ageing.

    def age(self, now_us: int, here: Point | None, speed_mps: float) -> list[Does]:
        """Drops the proximities that this node has left, and those that fell silent.

        4.5.2 verifies a mobile one by its updates alone, for its cached place may be old. But no update shows that a
        node is outside if the radio does not reach beyond the proximity and its margin. The velocity of the last
        beacon makes the cached place good enough; should it mislead, the next beacon enters the proximity again.
        Who does not know where it is may still be inside: that alone ends nothing.
        """
        effects: list[Does] = []
        for entry in list(self.relevant.values()):
            if entry.local:
                continue
            naval = entry.naval_at(now_us, self.space)
            silence_us = self.params.announcements_missed_max * entry.period_us
            if here is not None and not self._is_near(entry, naval, entry.velocity, here, speed_mps):
                effects += self.drop(entry)
            elif silence_us and now_us - entry.heard_us > silence_us:
                effects += [Note("proximity_silent", entry.id), *self.drop(entry)]
        return effects

    def anticipate(self, now_us: int) -> list[Does]:
        """S11: a producer that fell silent is probably cut off from this node."""
        effects: list[Does] = []
        for entry in self.relevant.values():
            if (
                entry.member
                and not entry.local
                and not entry.anticipated
                and now_us - entry.heard_us > self._recent_us(entry)
            ):
                entry.anticipated = True
                effects.append(Note("partition_anticipated", entry.id))
        return effects

    def _is_near(
        self, entry: Relevant, naval: Point, velocity: Velocity | None, here: Point, speed_mps: float
    ) -> bool:
        """Whether this node is inside, or may be before long at its own speed and the proximity's."""
        if velocity is not None and entry.mobile:
            speed_mps += velocity.speed
        lookahead_s = self.params.discovery_lookahead_periods * entry.period_us / 1e6
        return nearly_holds(entry.region, naval, here, speed_mps * lookahead_s, self.space)

    def forget_remote(self) -> None:
        """After the host was away: what it knew of others is old, and its groups are to be joined anew."""
        for entry in list(self.relevant.values()):
            entry.member = False
            if not entry.local:
                self.drop(entry)
                self.left.append(entry.id)
        self.groups.clear()

    def rejoin(self) -> list[Does]:
        return self._reckon_all(list(self.relevant.values()))

    def is_local_here(self, entry: Relevant, here: Point) -> bool:
        """Whether a local proximity is to be advertised: a mobile one always, a stationary one while inside."""
        return entry.event_type is None or entry.mobile or holds(entry.region, None, here, self.space)

    # The list itself.

    def _entry_of(self, said: Announcement | Wanted, local: bool = False) -> Relevant:
        """The entry that an announcement or a want describes: the one in the list, unless it describes another."""
        if isinstance(said, Announcement):
            assert said.proximity is not None
            entry_id, subject, region, event_type = said.id, said.event_type.subject, said.proximity, said.event_type
            period_us = said.period_us or self.params.announcement_period_us
        else:
            entry_id, subject, region, event_type = said.subscription_id, said.subject, said.region, None
            period_us = self.params.announcement_period_us
        known = self.relevant.get(entry_id)
        if known is not None and known.is_of(subject, region, said.initial_naval, event_type):
            return known
        return Relevant(entry_id, subject, region, said.initial_naval, event_type, local, period_us)

    def _enter(self, entry: Relevant) -> list[Does]:
        known = self.relevant.get(entry.id)
        effects = [] if known is None or known is entry else self.drop(known)
        self.relevant[entry.id] = entry
        if entry.event_type is None:
            self.wanted[entry.id] = entry
            self._wants.clear()
        else:
            self.by_subject.setdefault(entry.subject, {})[entry.id] = entry
        return effects + self._reckon(entry)

    def drop(self, entry: Relevant) -> list[Does]:
        del self.relevant[entry.id]
        if entry.event_type is None:
            del self.wanted[entry.id]
            self._wants.clear()
        else:
            del self.by_subject[entry.subject][entry.id]
            if not self.by_subject[entry.subject]:
                del self.by_subject[entry.subject]
        return self._set_member(entry, False)

    def concerned(self, subject: str) -> list[Relevant]:
        """The entries whose membership a subscription to `subject` can change."""
        if is_pattern(subject):
            return list(self.relevant.values())
        return [*self.by_subject.get(subject, {}).values(), *self.wanted.values()]

    def _reckon_all(self, entries: list[Relevant]) -> list[Does]:
        return [effect for entry in entries for effect in self._reckon(entry)]

    def _reckon(self, entry: Relevant) -> list[Does]:
        return self._set_member(entry, entry.local or self._interested(entry))

    def _interested(self, entry: Relevant) -> bool:
        if entry.event_type is not None:
            return self.interests.wants(entry.subject)
        return (
            any(self._produces_openly(subject, entry.subject) for subject in self.announced)
            or self.interests.has_pattern(entry.subject)
            or (not is_pattern(entry.subject) and self.interests.wants(entry.subject))
        )

    def _produces_openly(self, subject: str, pattern: str) -> bool:
        return subject_matches(pattern, subject) and any(
            announcement.proximity is None for announcement in self.announced[subject].values()
        )

    def _set_member(self, entry: Relevant, member: bool) -> list[Does]:
        if entry.member == member:
            return []
        entry.member = member
        if member:
            joined = self.groups.setdefault(entry.group, {})
            joined[entry.id] = None
            return [JoinGroup(entry.group)] if len(joined) == 1 else []
        self.left.append(entry.id)
        joined = self.groups[entry.group]
        del joined[entry.id]
        if joined:
            return []
        del self.groups[entry.group]
        return [LeaveGroup(entry.group)]


def anchored_here(region: Region, host: str) -> bool:
    """Whether a node can say where a region is: it is fixed, or moves with the node itself."""
    return not isinstance(region, Anchored) or region.host == host
