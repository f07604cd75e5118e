"""Renewals: an issuer tells content, filters and scopes once, and afterwards only that they go on (C10).

What is issued never changes, so a refresh need not repeat it: between whole tellings (`Telling`) a `Renewal` says by
its id which event or subscription is told anew, from where, and where it can be reached now. Hosts of the region that
hold it renew it. One that does not, since the first telling was lost or it has come without anybody seeing it, asks
its neighbours with `Unknown`; whoever holds it and hears that answers with a digest. If none does, `Untold` goes to
where the issuer can be reached, and the issuer tells it whole once more. Askers wait a random time and leave out what
another has asked for meanwhile; what they send to an issuer has one id, so geocast lets one through. Each version is
asked for once, so nothing goes round.
"""

from random import Random

from roamcast.adhoc.context.held import AnyHeld, HeldEvent, Holdings
from roamcast.adhoc.context.messages import UNKNOWN_MAX, Renewal, Unknown, Untold, telling_id
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.geocast import Geocast
from roamcast.adhoc.neighbours import Here
from roamcast.adhoc.routes import Route
from roamcast.node.boundary import Broadcast, Does, SetTimer
from roamcast.node.recent import Recent


class Renewals:
    def __init__(self, params: ContextParams, rng: Random, held: Holdings, geocast: Geocast) -> None:
        self.params = params
        self.rng = rng
        self.held = held
        self.geocast = geocast
        self.asked = Recent(params.handled_pairs_max)
        self.waiting: dict[str, Renewal] = {}
        """What is to be asked for when the timer fires."""
        self.unanswered: list[Renewal] = []
        """What neighbours were asked for."""

    def known(self, renewal: Renewal) -> AnyHeld | None:
        """What is held of it; what was issued anew under the same id is another, and only its issuer renews it."""
        row = self._same_issue(renewal)
        return row if row is not None and is_issuer(renewal, row) else None

    def is_foreign(self, renewal: Renewal) -> bool:
        """Whether another issuer's is held."""
        row = self._same_issue(renewal)
        return row is not None and not is_issuer(renewal, row) and renewal.reach.issuer.host != row.owner

    def _same_issue(self, renewal: Renewal) -> AnyHeld | None:
        row = self.find(renewal.issue)
        return row if row is not None and row.issue_issued_us == renewal.issued_us else None

    def find(self, issue: str) -> AnyHeld | None:
        return self.held.events.get(issue) or self.held.subscriptions.get(issue)

    def missing(self, now_us: int, renewal: Renewal) -> list[Does]:
        """This host belongs to its region and does not hold it."""
        if not self.asked.add(f"{renewal.issue}/{renewal.reach.version}") or len(self.waiting) >= UNKNOWN_MAX:
            return []
        first = not self.waiting and not self.unanswered
        self.waiting[renewal.issue] = renewal
        return [SetTimer("unknown", now_us + self._delay_us())] if first else []

    def overheard(self, unknown: Unknown) -> None:
        for issue in unknown.issues:
            self.waiting.pop(issue, None)

    def fired(self, now_us: int, here: Here | None) -> list[Does]:
        """Asks neighbours for what waits, and issuers for what neighbours did not answer."""
        unanswered = [renewal for renewal in self.unanswered if self.known(renewal) is None]
        asked = [renewal for renewal in self.waiting.values() if self.known(renewal) is None]
        self.waiting.clear()
        if here is None:
            # Nobody can be asked, so no answer is due, and the next renewal sets the timer.
            self.unanswered = []
            return []
        self.unanswered = asked
        effects: list[Does] = []
        for renewal in unanswered:
            effects += self.geocast.send(now_us, untold(renewal, here), contended=True)
        if asked:
            answered_us = now_us + 2 * round(self.params.digest_delay_ms * 1_000)
            unknown = Unknown(here, tuple(renewal.issue for renewal in asked))
            effects += [Broadcast(unknown), SetTimer("unknown", answered_us + self._delay_us())]
        return effects

    def _delay_us(self) -> int:
        return round(self.rng.uniform(0, self.params.digest_delay_ms) * 1_000)


def is_issuer(renewal: Renewal, row: AnyHeld) -> bool:
    """By who told it last rather than by its id. Gateways that brought the same event renew it for each other."""
    issuer, known = renewal.reach.issuer.host, row.reach.issuer.host
    return issuer == known or (isinstance(row, HeldEvent) and row.owner not in (issuer, known))


def untold(renewal: Renewal, here: Here) -> Untold:
    reach = renewal.reach
    route = Route(telling_id("u", renewal.issue, reach.issuer.host, reach.version), reach.region, here)
    return Untold(route=route, issue=renewal.issue, issuer=reach.issuer.host)
