"""A node on the command line runs what the simulator runs."""

from random import Random

import pytest
from msgspec.structs import replace

from roamcast.adhoc.context.node import ContextNode
from roamcast.adhoc.context.params import ContextParams
from roamcast.adhoc.proximity.node import Proximity
from roamcast.adhoc.proximity.params import ProximityParams
from roamcast.cli._node_options import Options, kit_for
from roamcast.node.kit import ProtocolKit, Seat
from roamcast.papers.assemble import kit_of

RANGE_M = 123.0


def params_of(kit: ProtocolKit) -> ProximityParams | ContextParams:
    node = kit.make_node(Seat("a", Random(1)))
    assert isinstance(node, Proximity | ContextNode)
    return node.params


def simulated(kind: str, **given: str) -> ProximityParams | ContextParams:
    return params_of(kit_of({"kind": kind, "radio_range_m": RANGE_M, **given}))


@pytest.mark.parametrize("kind", ["proximity", "context"])
def test_s13_a_node_has_the_parameters_of_a_simulated_one_where_neither_is_told_any(kind: str) -> None:
    live = params_of(kit_for(Options(name="a", protocol=kind, range_m=RANGE_M)))
    assert live == simulated(kind) == simulated(kind, preset="recommended")


@pytest.mark.parametrize("kind", ["proximity", "context"])
def test_s13_the_papers_parameters_are_asked_for_by_name(kind: str) -> None:
    asked = Options(name="a", protocol=kind, range_m=RANGE_M)
    paper = params_of(kit_for(replace(asked, preset="paper")))
    assert paper == simulated(kind, preset="paper")
    assert paper != params_of(kit_for(asked))
