"""L2, L3, L8: retained, lasting, shared, wills, every QoS and every way through a broker at once, with all faults."""

from collections.abc import Callable

import pytest

from roamcast.mqtt.packets import Publish
from tests.broker.mqtt.mixture import Mixture, said_in
from tests.effort import seeds

STEPS = 40


@pytest.mark.parametrize("brokers", ["a", "ab", "abc"])
@pytest.mark.parametrize("faults", ["", "roam", "drop kill", "cut", "roam drop cut kill"])
@seeds(2, quick=1)
def test_everything_at_once_arrives_in_order_and_as_often_as_promised_l2_l3_l8(
    seed: int, faults: str, brokers: str
) -> None:
    trial = Mixture(seed, frozenset(faults.split()), brokers)
    trial.run(STEPS)
    trial.check()


def lose(trial: Mixture) -> None:
    trial.exact.taken.remove(next(each for each in trial.exact.taken if said_in(each).qos == 1))


def swap(trial: Mixture) -> None:
    """Two plain ones of QoS 0 of one writer and topic, on the connection of a reader."""
    heard = trial.again.heard
    found: dict[tuple[str, str], int] = {}
    for index, packet in enumerate(heard):
        if isinstance(packet, Publish) and (said := said_in(packet.payload)).qos == 0 and said.kind == "plain":
            before = found.setdefault((said.writer, said.topic), index)
            if before != index:
                heard[before], heard[index] = heard[index], heard[before]
                return


def double(trial: Mixture) -> None:
    trial.exact.taken.append(next(each for each in trial.exact.taken if said_in(each).qos == 2))


def double_in_the_group(trial: Mixture) -> None:
    both = [each for member in trial.members for each in member.taken]
    trial.members[0].taken.append(next(each for each in both if said_in(each).qos == 2))


def lose_from_the_group(trial: Mixture) -> None:
    lost = next(each for each in trial.members[0].taken if said_in(each).qos == 2)
    trial.members[0].taken.remove(lost)


def lose_what_is_fleeting(trial: Mixture) -> None:
    trial.fleeting[0].taken.pop()


def lose_a_will(trial: Mixture) -> None:
    trial.wills.append(b"mortal k/will 0 99 2 will")


def forget_a_member(trial: Mixture) -> None:
    del trial.stage.brokers["b"].server.core.border.groups.members["g", "k/#"]


def forget_what_is_retained(trial: Mixture) -> None:
    trial.stage.brokers["b"].server.core.border.retained.of.popitem()


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        lose,
        swap,
        double,
        double_in_the_group,
        lose_from_the_group,
        lose_what_is_fleeting,
        lose_a_will,
        forget_a_member,
        forget_what_is_retained,
    ],
)
def test_a_trial_notices_what_goes_wrong(mistake: Callable[[Mixture], None]) -> None:
    trial = Mixture(1, frozenset(), "ab")
    trial.run(10)
    trial.check()
    mistake(trial)
    with pytest.raises(AssertionError, match="seed 1"):
        trial.check()
