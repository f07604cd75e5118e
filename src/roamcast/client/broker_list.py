"""Chooses the next broker to connect to and the pause before; no I/O, randomness is given."""

from random import Random

from roamcast.client.connection import Address, address_of

PAUSE_MIN_S = 0.1
PAUSE_MAX_S = 5.0
REFERENCES_MAX = 5
"""How often in a row brokers may send a client on to another."""


class BrokerList:
    """Goes through the list of brokers, round and round. Each is tried at once in the first round; before every
    further one in which none was reached there is a pause, which doubles up to a bound."""

    def __init__(self, brokers: list[str], generator: Random) -> None:
        if not brokers:
            raise ValueError("a client needs a broker: give mqtt://host:port")
        self.addresses = list(dict.fromkeys(address_of(each) for each in brokers))
        self._generator = generator
        self._at = -1
        self._asked: list[Address] = []
        self._failures = 0
        self._references = 0

    def next_address(self) -> Address:
        if self._asked:
            return self._asked.pop()
        self._at = (self._at + 1) % len(self.addresses)
        return self.addresses[self._at]

    def pause_s(self) -> float:
        rounds = self._failures // len(self.addresses)
        if self._asked or rounds == 0:
            return 0.0
        bound_s = min(PAUSE_MAX_S, PAUSE_MIN_S * 2.0 ** min(rounds - 1, 16))
        return bound_s * self._generator.uniform(0.5, 1.0)

    def go(self, address: Address) -> None:
        self._asked = [address]

    def is_asked(self, address: Address) -> bool:
        """Whether it is still to be gone to."""
        return address in self._asked

    def refer(self, reference: str, scheme: str, permanently: bool) -> None:
        """A broker sends us on, to one of several if there are spaces in what it says: the first that can be read."""
        self._references += 1
        if self._references > REFERENCES_MAX:
            self.failed()
            return
        for word in reference.split():
            try:
                address = address_of(word, scheme)
            except ValueError:
                continue
            self._asked = [address]
            if permanently and self._at >= 0 and address not in self.addresses:
                self.addresses[self._at] = address
            return
        self.failed()

    def failed(self) -> None:
        self._failures += 1

    def reached(self) -> None:
        """A broker has us, and has had us for a while."""
        self._failures = self._references = 0
