"""The subscription repository of one node (4.5.1, point 5): found by subject, in time that others do not lengthen.

Subscriptions to a plain subject are kept under it. Those with a wildcard are few, and each is asked.
"""

from roamcast.model.subject import is_pattern, subject_matches
from roamcast.model.subscription import Subscription


class Interests:
    def __init__(self) -> None:
        self.by_id: dict[str, Subscription] = {}
        self.by_subject: dict[str, dict[str, Subscription]] = {}
        self.patterns: dict[str, Subscription] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def add(self, subscription: Subscription) -> None:
        self.remove(subscription.id)
        self.by_id[subscription.id] = subscription
        if is_pattern(subscription.subject):
            self.patterns[subscription.id] = subscription
        else:
            self.by_subject.setdefault(subscription.subject, {})[subscription.id] = subscription

    def remove(self, subscription_id: str) -> Subscription | None:
        subscription = self.by_id.pop(subscription_id, None)
        if subscription is None:
            return None
        if self.patterns.pop(subscription_id, None) is None:
            same = self.by_subject[subscription.subject]
            del same[subscription_id]
            if not same:
                del self.by_subject[subscription.subject]
        return subscription

    def expired(self, now_us: int) -> list[Subscription]:
        return [each for each in self.by_id.values() if each.expires_us < now_us]

    def of(self, subject: str) -> list[Subscription]:
        """Those that an event of this subject may be for."""
        found = list(self.by_subject.get(subject, {}).values())
        if self.patterns:
            found += [each for each in self.patterns.values() if subject_matches(each.subject, subject)]
        return found

    def wants(self, subject: str) -> bool:
        if subject in self.by_subject or not self.patterns:
            return subject in self.by_subject
        return any(subject_matches(each.subject, subject) for each in self.patterns.values())

    def has_pattern(self, pattern: str) -> bool:
        """Whether somebody here asked for the same subject or pattern, word for word."""
        return pattern in self.by_subject or any(each.subject == pattern for each in self.patterns.values())
