"""L1, L7: a tag is as good as its sender's signature to the one listener that it is for, and to nobody else."""

import copy
import hashlib
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from nacl.bindings import crypto_core_ed25519_add, crypto_sign_open

from roamcast.multicast import sealing
from roamcast.multicast.bonds import GREETING_FRAMES, GREETING_PERIOD_US, LISTENER_US, Bond
from roamcast.multicast.frames import HEADER_BYTES, SIGNATURE_BYTES, TAG_BYTES, TAGS_AT, TAGS_MAX, read_header
from roamcast.multicast.keys import ORDER, PREPARED_MAX, Identity, is_signed
from roamcast.multicast.sealing import NONCE, Seals
from tests.multicast.samples import ANN, BOB, EVE, Posing, opened, outcome, raised, sealed, seals

NOW_US = 1_000


def greeting(by: Seals, now_us: int = NOW_US) -> bytes:
    for _ in range(GREETING_FRAMES):
        by.bonds.frames_heard += 1
    datagram = by.greeting(now_us)
    assert datagram is not None
    return datagram


def take_greeting(listener: Seals, datagram: bytes, now_us: int = NOW_US) -> None:
    assert listener.open(now_us, datagram, listener.header(datagram)) is None


def pair() -> tuple[Seals, Seals]:
    """Ann, who knows that Bob listens, and Bob, who has heard Ann once."""
    ann, bob = seals("ann"), seals("bob")
    assert outcome(bob, sealed(ann, raised())) == "heard"
    take_greeting(ann, greeting(bob))
    return ann, bob


def tags_in(by: Seals, datagram: bytes) -> int:
    return plain_of(by, datagram)[SIGNATURE_BYTES]


def plain_of(by: Seals, datagram: bytes) -> bytes:
    """What is under the seal of a frame that `by` sealed."""
    nonce = NONCE.pack(read_header(datagram).counter)
    return by._cipher.decrypt(nonce, datagram[HEADER_BYTES:], datagram[:HEADER_BYTES])


def resealed(by: Seals, datagram: bytes, plain: bytes) -> bytes:
    """What somebody with the group's key can make of a frame that `by` sealed last."""
    head = datagram[:HEADER_BYTES]
    return head + by._cipher.encrypt(NONCE.pack(by._counter), plain, head)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The statements whose frame signatures were looked at."""
    looked_at: list[bytes] = []

    def look(key: bytes, statement: bytes, signature: bytes) -> bool:
        looked_at.append(statement)
        return is_signed(key, statement, signature)

    monkeypatch.setattr(sealing, "is_signed", look)
    return looked_at


def test_l1_who_has_greeted_checks_no_signature_any_more(checked: list[bytes]) -> None:
    ann, bob = pair()
    checked.clear()
    for number in range(2, 12):
        assert outcome(bob, sealed(ann, raised(number=number))) == "heard"
    assert checked == []


def test_l1_who_has_not_greeted_checks_the_signature_as_before(checked: list[bytes]) -> None:
    ann, _ = pair()
    eve = seals("eve")
    assert outcome(eve, sealed(ann, raised(number=2))) == "heard"
    assert outcome(eve, sealed(ann, raised(number=3))) == "heard"
    assert len(checked) == 4


def test_l7_the_first_frame_of_a_session_is_known_by_its_signature(checked: list[bytes]) -> None:
    _, bob = pair()
    later = seals("ann", 2)
    take_greeting(later, greeting(bob, NOW_US + GREETING_PERIOD_US))
    checked.clear()
    assert outcome(bob, sealed(later, raised(number=2))) == "heard"
    assert len(checked) == 1


def test_l7_a_frame_with_a_wrong_tag_and_no_signature_is_forged() -> None:
    ann, bob = pair()
    datagram = sealed(ann, raised(number=2))
    plain = bytearray(plain_of(ann, datagram))
    plain[TAGS_AT + TAG_BYTES - 1] ^= 1
    plain[0] ^= 1
    assert outcome(bob, resealed(ann, datagram, bytes(plain))) == "forged"
    assert outcome(bob, datagram) == "heard"


def test_l7_a_wrong_tag_beside_a_good_signature_means_nothing() -> None:
    """Somebody with the group's key can spoil tags, and must not be able to silence anybody by it."""
    ann, bob = pair()
    datagram = sealed(ann, raised(number=2))
    plain = bytearray(plain_of(ann, datagram))
    plain[TAGS_AT + TAG_BYTES - 1] ^= 1
    assert outcome(bob, resealed(ann, datagram, bytes(plain))) == "heard"


def test_l7_a_tag_does_not_vouch_for_another_message() -> None:
    ann, bob = pair()
    first, second = sealed(ann, raised(number=2)), sealed(ann, raised(number=3))
    old, new = plain_of(ann, first), plain_of(ann, second)
    assert new[SIGNATURE_BYTES] == 1
    mixed = old[: TAGS_AT + TAG_BYTES] + new[TAGS_AT + TAG_BYTES :]
    assert outcome(bob, resealed(ann, second, mixed)) == "forged"


def test_l7_who_has_the_groups_key_and_is_bonded_itself_makes_no_tag_of_another() -> None:
    """Eve listens to Ann too, and knows all but the secret that Ann and Bob share."""
    ann, bob = pair()
    eve = seals("eve")
    assert outcome(eve, sealed(ann, raised(number=2))) == "heard"
    take_greeting(ann, greeting(eve))
    posing = seals("ann", identity=Posing(EVE, ANN.public))
    posing.session, posing._cipher, posing._counter = ann.session, ann._cipher, 100
    posing.bonds.session = ann.session
    take_greeting(posing, greeting(bob, NOW_US + GREETING_PERIOD_US))
    assert tags_in(posing, sealed(posing, raised(number=3))) == 1
    assert outcome(bob, sealed(posing, raised(number=4))) == "forged"


def test_l7_who_greets_in_the_session_of_another_takes_no_tags_from_it(checked: list[bytes]) -> None:
    ann, bob, eve = seals("ann"), seals("bob"), seals("eve")
    eve.session, eve._cipher = bob.session, bob._cipher
    take_greeting(ann, greeting(eve))
    take_greeting(ann, greeting(bob))
    assert outcome(bob, sealed(ann, raised())) == "heard"
    checked.clear()
    assert outcome(bob, sealed(ann, raised(number=2))) == "heard"
    assert checked == []


def test_l7_a_frame_that_came_by_a_tag_is_taken_once() -> None:
    ann, bob = pair()
    datagram = sealed(ann, raised(number=2))
    assert outcome(bob, datagram) == "heard"
    assert outcome(bob, datagram) == "replayed"


def test_l7_a_bond_goes_one_way_and_for_one_pair_of_sessions() -> None:
    secret = ANN.secret_with(BOB.public)
    assert secret is not None
    assert secret == BOB.secret_with(ANN.public)
    here, there, later = (ANN.public, b"1" * 16), (BOB.public, b"2" * 16), (BOB.public, b"3" * 16)
    tags = [Bond(secret, *sides).tag(b"said") for sides in ((here, there), (there, here), (here, later))]
    assert len(set(tags)) == 3


def test_l7_a_key_that_is_no_point_gets_no_tags() -> None:
    assert ANN.secret_with(bytes(32)) is None
    assert ANN.secret_with(b"\xff" * 32) is None


class Crooked(Identity):
    """Has a key outside of the curve's main group, and tries until a signature with it happens to be right."""

    def __init__(self) -> None:
        super().__init__(b"c" * 32)
        self.public = crypto_core_ed25519_add(self.public, (2**255 - 20).to_bytes(32, "little"))

    def sign(self, statement: bytes) -> bytes:
        while True:
            self.prepare(1)
            signature = super().sign(statement)
            if is_signed(self.public, statement, signature):
                return signature


class Counting(Identity):
    asked = 0

    def secret_with(self, public: bytes) -> bytes | None:
        self.asked += 1
        return super().secret_with(public)


def test_l7_that_a_key_can_share_no_secret_is_found_out_once(checked: list[bytes]) -> None:
    own = Counting(b"o" * 32)
    bob, eve = seals("bob", identity=own), seals("eve", identity=Crooked())
    for number in range(1, 9):
        datagram = sealed(eve, raised("eve", number))
        plain = plain_of(eve, datagram)
        tagged = plain[:SIGNATURE_BYTES] + b"\1" + bytes(TAG_BYTES) + plain[TAGS_AT:]
        assert outcome(bob, resealed(eve, datagram, tagged)) == "heard"
    assert len(checked) == 8
    assert own.asked == 1
    assert own.secret_with(eve.identity.public) is None


def test_l7_a_frame_that_was_refused_is_not_looked_at_again(checked: list[bytes]) -> None:
    bob = seals("bob")
    forged = sealed(seals("ann", identity=Posing(EVE, ANN.public)), raised())
    assert [outcome(bob, forged) for _ in range(5)] == ["forged"] * 5
    assert len(checked) == 1


# Greetings.


def test_l1_a_greeting_is_due_after_some_frames_and_not_soon_again() -> None:
    bob = seals("bob")
    assert bob.greeting(NOW_US) is None
    greeting(bob)
    for _ in range(GREETING_FRAMES):
        bob.bonds.frames_heard += 1
    assert bob.greeting(NOW_US + GREETING_PERIOD_US - 1) is None
    assert bob.greeting(NOW_US + GREETING_PERIOD_US) is not None


def test_l1_who_only_hears_greetings_does_not_greet() -> None:
    ann, bob = seals("ann"), seals("bob")
    for count in range(2 * GREETING_FRAMES):
        take_greeting(ann, greeting(bob, NOW_US + count * GREETING_PERIOD_US))
    assert ann.greeting(NOW_US) is None


def test_l1_who_falls_silent_gets_no_more_tags() -> None:
    ann, _ = pair()
    assert tags_in(ann, sealed(ann, raised(number=2))) == 1
    ann.bonds.is_to_greet(NOW_US + LISTENER_US + 1)
    assert tags_in(ann, sealed(ann, raised(number=3))) == 0


def test_l1_who_begins_a_new_session_gets_tags_for_that_one(checked: list[bytes]) -> None:
    ann, _ = pair()
    again = seals("bob", 2)
    assert outcome(again, sealed(ann, raised(number=2))) == "heard"
    take_greeting(ann, greeting(again))
    checked.clear()
    datagram = sealed(ann, raised(number=3))
    assert tags_in(ann, datagram) == 1
    assert outcome(again, datagram) == "heard"
    assert checked == []


def test_l1_there_are_tags_for_a_few_and_signatures_for_all() -> None:
    ann = seals("ann")
    crowd = [seals(f"n{number}", identity=Identity(bytes([number]) * 32)) for number in range(10, 11 + TAGS_MAX)]
    for each in crowd:
        take_greeting(ann, greeting(each))
    datagram = sealed(ann, raised())
    assert tags_in(ann, datagram) == TAGS_MAX
    assert [outcome(each, datagram) for each in crowd] == ["heard"] * len(crowd)


# Prepared signatures.


def test_l7_a_prepared_signature_is_one_of_ed25519() -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(3)
    signatures = [identity.sign(b"said") for _ in range(4)]
    assert identity.prepared == 0
    assert len(set(signatures)) == 4
    for signature in signatures:
        assert crypto_sign_open(signature + b"said", identity.public) == b"said"
        assert not is_signed(identity.public, b"denied", signature)


def test_l7_no_secret_number_serves_two_signatures() -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(PREPARED_MAX + 9)
    assert identity.prepared == PREPARED_MAX
    points = {identity.sign(b"%d" % number)[:32] for number in range(PREPARED_MAX)}
    assert len(points) == PREPARED_MAX


def test_l7_a_copy_of_the_process_uses_none_of_the_prepared_numbers() -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(1)
    identity._prepared_by = os.getppid()
    plain = Identity(b"p" * 32).sign(b"said")
    assert identity.sign(b"said") == plain
    identity.prepare(1)
    assert identity.prepared == 1
    assert identity.sign(b"said") != plain


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_l7_a_copy_of_an_identity_has_none_of_the_prepared_numbers(copied: Callable[[Identity], Identity]) -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(1)
    other = copied(identity)
    assert (identity.prepared, other.prepared) == (1, 0)
    points = [each.sign(said)[:32] for each, said in ((identity, b"one"), (other, b"two"))]
    assert len(set(points)) == 2
    assert is_signed(identity.public, b"two", other.sign(b"two"))


def test_l7_two_signatures_with_one_number_give_the_key_away() -> None:
    """What all the care is for."""
    identity = Identity(b"p" * 32)
    identity.prepare(1)
    number = identity._prepared[0]
    first = identity.sign(b"one")
    identity._prepared.append(number)
    second = identity.sign(b"two")
    sums = [int.from_bytes(each[32:], "little") for each in (first, second)]
    challenges = [
        int.from_bytes(hashlib.sha512(each[:32] + identity.public + said).digest(), "little")
        for each, said in ((first, b"one"), (second, b"two"))
    ]
    found = (sums[0] - sums[1]) * pow(challenges[0] - challenges[1], -1, ORDER) % ORDER
    assert found == identity._number % ORDER


def test_l7_a_forked_process_has_none_of_the_prepared_numbers_whatever_its_id_is() -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        identity._prepared_by = os.getpid()
        os.write(writing, b"%d" % identity.prepared)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 9) == b"0"
    os.close(reading)
    os.close(writing)
    assert identity.prepared == 1


def test_l7_threads_never_draw_the_same_number() -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(PREPARED_MAX)
    with ThreadPoolExecutor(8) as threads:
        signatures = list(threads.map(identity.sign, [b"%d" % number for number in range(PREPARED_MAX)]))
    assert len({each[:32] for each in signatures}) == PREPARED_MAX


def test_l1_a_frame_with_a_prepared_signature_is_heard() -> None:
    identity = Identity(b"p" * 32)
    identity.prepare(1)
    ann = seals("ann", identity=identity)
    assert opened(seals("bob"), sealed(ann, raised())).sender == "ann"
    assert identity.prepared == 0
