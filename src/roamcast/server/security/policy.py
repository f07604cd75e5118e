"""The decisions of a broker about its clients, without I/O.

Everything is denied that no rule allows, as soon as a password file, an authority for client certificates or a rule
is configured. A broker for which nothing is configured lets everybody do everything; it is for the settings to see
that only its own machine can reach it.

- A client certificate that TLS has verified makes its common name the user. A user name that comes besides must be
  the same.
- A user name and password are verified against the password file. A user that is not in it is verified against
  a hash that no password has, so that the time it takes does not tell who exists.
- Without both, the client is anonymous, and let in only if that was said or nothing is configured.

Whoever no rule speaks of is not let in: nothing would be allowed, but under another's client id its session and what
waits in it would be taken. Rules with `clients = ["%u-*"]` tie client ids to users.

A will is a publication like others: `may_publish` is asked when it comes to be published.
"""

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from roamcast.model.region import Anchored, Region, Shape, check_region, contains, placed
from roamcast.model.space import Space
from roamcast.model.subject import subject_covers, subject_matches
from roamcast.model.values import Point
from roamcast.mqtt.packets import Connect
from roamcast.mqtt.reasons import BadPacket, Reason
from roamcast.mqtt.topics import parse_filter
from roamcast.server.security.areas import lies_within
from roamcast.server.security.rules import Rule, topic_pattern
from roamcast.server.security.verdicts import ALLOWED, Admission, Admitted, Identity, Refused, ToVerify, Verdict

SELF_REPORT = "$roam/me"
"""What a client publishes here says something about itself alone, so everybody may who is let in."""
IDENTITIES_CACHED = 16_384


class Grant(Struct, frozen=True):
    """What one rule means for one client."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    area: Shape | None
    publisher_inside: bool


class Policy:
    def __init__(
        self,
        space: Space,
        rules: tuple[Rule, ...] = (),
        password_hashes: Mapping[str, str] | None = None,
        decoy_hash: str = "",
        asks_certificates: bool = False,
        anonymous: bool | None = None,
    ) -> None:
        """`anonymous` None: only if nothing else is configured. `decoy_hash` is one that no password has."""
        self._space = space
        self._rules = rules
        self._shapes: tuple[Shape | None, ...] = tuple(rule.area.shape() if rule.area else None for rule in rules)
        for shape in self._shapes:
            if shape is not None:
                check_region(shape, space)
        self._hashes = password_hashes
        self._decoy = decoy_hash
        self.open = not rules and password_hashes is None and not asks_certificates
        self._anonymous = self.open if anonymous is None else anonymous
        self._grants_of = lru_cache(IDENTITIES_CACHED)(self._find_grants_of)

    def connect(self, connect: Connect, certificate_name: str | None = None) -> Admission:
        """`certificate_name` is the common name of a certificate that was verified.

        The identity has the client id of the CONNECT; where that is empty, put in the one that is made up.
        """
        if certificate_name is not None:
            if connect.username not in (None, certificate_name):
                detail = f"'{connect.username}' came with the certificate of '{certificate_name}'"
                return refused(Reason.NOT_AUTHORIZED, detail)
            return self._admitted(Identity(connect.client_id, certificate_name))
        if self._hashes is not None and connect.username is not None:
            if connect.password is None:
                return refused(Reason.BAD_USER_NAME_OR_PASSWORD, f"'{connect.username}' gave no password")
            identity = Identity(connect.client_id, connect.username)
            # Nobody learns from the answer, or its time, whether it was the rules or the password.
            digest = self._hashes.get(connect.username, self._decoy) if self._spoken_of(identity) else self._decoy
            return ToVerify(identity, digest, connect.password)
        if self._anonymous:
            # A name that nobody can verify is not one that a rule may speak of.
            return self._admitted(Identity(connect.client_id))
        return refused(Reason.NOT_AUTHORIZED, "a user name and password, or a client certificate, is needed")

    def may_stay(self, identity: Identity, certificate_name: str | None = None) -> bool:
        """Whether a client that was let in under other rules still would be, whatever its password is now."""
        if certificate_name is None and identity.user is None:
            return self._anonymous and self._spoken_of(identity)
        is_known = certificate_name is not None or identity.user in (self._hashes or {})
        return is_known and self._spoken_of(identity)

    def _admitted(self, identity: Identity) -> Admission:
        if self._spoken_of(identity):
            return Admitted(identity)
        return refused(Reason.NOT_AUTHORIZED, f"no rule speaks of {described(identity)}")

    def _spoken_of(self, identity: Identity) -> bool:
        return not self._rules or bool(self._grants_of(identity))

    def may_publish(
        self, identity: Identity, topic: str, position: Point | None = None, regions: tuple[Region, ...] = ()
    ) -> Verdict:
        """`position` is where the client was last, `regions` are those of the event's relevance and audience."""
        if self.open or topic == SELF_REPORT:
            return ALLOWED
        misplaced = False
        for grant in self._grants_of(identity):
            if not any(subject_matches(each, topic) for each in grant.publish):
                continue
            area = grant.area
            if area is None or self._stays_in(area, grant.publisher_inside, identity, position, regions):
                return ALLOWED
            misplaced = True
        where = ""
        if misplaced:
            where = ": it has not reported where it is" if position is None else " from here or into there"
        return Verdict(Reason.NOT_AUTHORIZED, f"{described(identity)} may not publish to {topic}{where}")

    def may_publish_anywhere(self, identity: Identity, topic: str) -> bool:
        """Whether it may, wherever it is and whatever the event's regions are: then that never changes."""
        return topic == SELF_REPORT or any(
            grant.area is None and any(subject_matches(each, topic) for each in grant.publish)
            for grant in self._grants_of(identity)
        )

    def may_subscribe(self, identity: Identity, pattern: str) -> Verdict:
        """Only if one allowed pattern covers all of it. The prefixes `$share` and `$roam` are left out of account."""
        try:
            wanted = parse_filter(pattern).pattern
        except BadPacket as problem:
            return Verdict(Reason.TOPIC_FILTER_INVALID, problem.detail)
        if self.open:
            return ALLOWED
        for grant in self._grants_of(identity):
            if any(subject_covers(each, wanted) for each in grant.subscribe):
                return ALLOWED
        return Verdict(Reason.NOT_AUTHORIZED, f"{described(identity)} may not subscribe to {wanted}")

    def _find_grants_of(self, identity: Identity) -> tuple[Grant, ...]:
        def meant(patterns: tuple[str, ...]) -> tuple[str, ...]:
            found = (topic_pattern(each, identity) for each in patterns)
            return tuple(each for each in found if each is not None)

        return tuple(
            Grant(meant(rule.publish), meant(rule.subscribe), shape, rule.publisher_inside)
            for rule, shape in zip(self._rules, self._shapes, strict=True)
            if rule.speaks_of(identity)
        )

    def _stays_in(
        self,
        area: Shape,
        publisher_inside: bool,
        identity: Identity,
        position: Point | None,
        regions: tuple[Region, ...],
    ) -> bool:
        """An event without a region goes anywhere, so then its publisher has to be in the area."""
        if publisher_inside and (position is None or not contains(area, position, self._space)):
            return False
        if not publisher_inside and not regions:
            return False
        return all(self._region_stays_in(area, region, identity, position) for region in regions)

    def _region_stays_in(self, area: Shape, region: Region, identity: Identity, position: Point | None) -> bool:
        if not isinstance(region, Anchored):
            return lies_within(area, region, self._space)
        # It is where its host is; of hosts other than the publisher that is not known here.
        if position is None or region.host != identity.client_id:
            return False
        return lies_within(area, placed(region.shape, position, self._space, region.reference), self._space)


def refused(reason: Reason, detail: str) -> Refused:
    return Refused(Verdict(reason, detail))


def described(identity: Identity) -> str:
    who = "anonymous" if identity.user is None else f"user '{identity.user}'"
    return f"{who} as client '{identity.client_id}'"
