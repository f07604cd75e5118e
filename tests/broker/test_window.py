"""The window of a client's deliveries: numbers, acknowledgements, bounds, and its way to another broker (R3)."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from roamcast.broker.window import Bounds, Delivery, Window, WindowState
from roamcast.model.context import Context
from roamcast.model.event import Event
from tests.effort import examples

PLENTY = Bounds(100_000, 100)
KEEPING = Bounds(100_000, 100, evicts=False)


def delivery(serial: int, publisher: str = "P", body: bytes = b"") -> Delivery:
    return Delivery(Event(f"{publisher}:{serial}", "t", Context(publisher), 0, 0, body=body), serial, ("s",))


def window_of(count: int, bounds: Bounds = PLENTY) -> Window:
    window = Window(bounds)
    for serial in range(1, count + 1):
        window.add(delivery(serial, body=b"x" * serial))
    return window


def content(window: Window) -> tuple[object, ...]:
    return window.next_number, window.first, list(window.entries), list(window.received), window.bytes


def is_consistent(window: Window) -> bool:
    unfinished = [*window.entries, *window.received]
    return (
        window.first == min(unfinished, default=window.next_number)
        and window.bytes == sum(each.size_bytes for each in window.entries.values())
        and list(window.entries) == sorted(window.entries)
        and window.entries.keys().isdisjoint(window.received)
    )


def test_numbers_follow_each_other_from_the_first() -> None:
    window = Window(PLENTY, 124)
    assert [window.add(delivery(serial)) for serial in (1, 2, 3)] == [124, 125, 126]
    assert [number for number, _ in window.after(124)] == [125, 126]


@given(count=st.integers(0, 20), through=st.integers(0, 25))
@examples(100)
def test_a_cumulative_acknowledgement_is_many_single_ones(count: int, through: int) -> None:
    together, one_by_one = window_of(count), window_of(count)
    together.acknowledge(through)
    for number in range(1, through + 1):
        one_by_one.finish(number)
    assert content(together) == content(one_by_one)


@given(steps=st.lists(st.tuples(st.sampled_from(["add", "finish", "receive", "acknowledge"]), st.integers(0, 30))))
@examples(300)
def test_whatever_is_acknowledged_in_whichever_order_only_the_rest_is_left(steps: list[tuple[str, int]]) -> None:
    window, left, received = Window(PLENTY), set[int](), set[int]()
    for what, number in steps:
        match what:
            case "add":
                left.add(window.add(delivery(window.next_number)))
            case "finish":
                assert window.finish(number) == (number in left | received)
                left.discard(number)
                received.discard(number)
            case "receive":
                assert window.receive(number) == (number in left)
                received |= {number} & left
                left.discard(number)
            case _:
                window.acknowledge(number)
                left = {each for each in left if each > number}
                received = {each for each in received if each > number}
        assert (set(window.entries), set(window.received)) == (left, received)
        assert is_consistent(window)


def test_70_000_deliveries_behind_one_that_is_stuck_do_not_reach_its_packet_identifier() -> None:
    window = Window(KEEPING)
    window.add(delivery(1))
    dropped = 0
    for serial in range(2, 70_002):
        if window.has_room(0):
            window.finish(window.add(delivery(serial)))
        else:
            dropped += 1
    assert (window.first, window.next_number, dropped) == (1, 60_001, 10_001)
    window.finish(1)
    assert window.has_room(0)
    assert window.first == window.next_number


def test_one_received_and_never_completed_holds_its_number_too() -> None:
    window = Window(Bounds(100, 10, span_max=5, evicts=False))
    window.receive(window.add(delivery(1)))
    while window.has_room(0):
        window.finish(window.add(delivery(window.next_number)))
    assert window.next_number == 6


def test_the_oldest_gives_way_to_a_new_one_and_is_counted() -> None:
    window = window_of(8, Bounds(5, 10))
    assert (list(window.entries), window.lost) == ([4, 5, 6, 7, 8], 3)


def test_room_is_bounded_in_count_and_bytes() -> None:
    window = Window(Bounds(3, 10, bytes_max=10, evicts=False))
    window.add(delivery(1, body=b"1234567"))
    assert (window.has_room(3), window.has_room(4)) == (True, False)
    assert (window.has_room(0, held=1), window.has_room(0, held=2)) == (True, False)


def test_copies_are_known_by_the_serials_of_their_publishers() -> None:
    window = Window(Bounds(10, 2))
    window.add(delivery(5, "A"))
    window.mark("A", 3)
    assert (window.is_new("A", 5), window.is_new("A", 6), window.is_new("B", 1)) == (False, True, True)
    window.add(delivery(1, "B"))
    window.add(delivery(1, "C"))
    assert list(window.marks) == ["B", "C"]


def moved(window: Window, after: int = 0) -> Window:
    """The window as it is at the next broker, by bytes."""
    entries = msgspec.msgpack.decode(msgspec.msgpack.encode(window.after(after)), type=list[tuple[int, Delivery]])
    there = Window(window.bounds, after + 1)
    for number, each in [*entries, *entries]:
        there.keep(number, each)
    there.take_over(msgspec.msgpack.decode(msgspec.msgpack.encode(window.state()), type=WindowState))
    return there


@given(count=st.integers(0, 12), finished=st.sets(st.integers(1, 12)), received=st.sets(st.integers(1, 12)))
@examples(200)
def test_a_window_is_the_same_at_the_next_broker(count: int, finished: set[int], received: set[int]) -> None:
    here = window_of(count)
    for number in sorted(finished):
        here.finish(number)
    for number in sorted(received):
        here.receive(number)
    here.sent_through, here.lost = 7, 2
    there = moved(here)
    assert content(there) == content(here)
    assert (there.sent_through, there.lost, there.marks) == (7, 2, here.marks)
    assert there.add(delivery(99)) == here.add(delivery(99))


def test_what_a_client_says_it_has_does_not_travel() -> None:
    there = moved(window_of(6), after=4)
    assert content(there)[:3] == (7, 5, [5, 6])


def test_numbers_that_cannot_be_do_not_keep_a_broker_busy() -> None:
    window = Window(KEEPING)
    window.keep(1, delivery(1))
    window.keep(2**52, delivery(2))
    window.finish(1)
    assert window.first == 2**52
    window.acknowledge(2**53)
    assert window.first == window.next_number == 2**52 + 1
