"""Checks a scenario's brokers before it runs: refuses what cannot work, warns of what is probably a mistake.

A scenario knows no protocol; that some of them have groups of brokers, and need a tree of links between them, is all
that stands here.
"""

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roamcast.sim.scenario import Scenario

WITH_BROKERS = ("broker", "resubscribing", "overlay")
ON_A_TREE = ("broker", "resubscribing")


def check_brokers(scenario: "Scenario") -> None:
    """Raises ValueError where nobody would be a broker, or events would go round for ever."""
    groups = broker_groups(scenario)
    names = [group.name for group in scenario.hosts]
    unknown = [group for group in groups if group not in names]
    if unknown:
        raise ValueError(
            f"protocol.brokers: there is no group '{unknown[0]}', and no brokers; the groups are {', '.join(names)}"
        )
    if needs_a_tree(scenario):
        brokers, between = hosts_of(scenario, groups), links_between_brokers(scenario, groups)
        if len(between) > len(brokers) - parts_of(brokers, between):
            raise ValueError(
                "the brokers are linked in a circle, and events would go round; wire them as line, star, tree or "
                "random-tree, or choose a handover that works in a mesh"
            )


def broker_warnings(scenario: "Scenario") -> list[str]:
    """Brokers that nobody reaches, or that do not reach each other."""
    if not needs_a_tree(scenario):
        return []
    groups = broker_groups(scenario)
    brokers = hosts_of(scenario, groups)
    parts = parts_of(brokers, links_between_brokers(scenario, groups))
    found = []
    if parts > 1:
        found.append(
            f"the brokers hang together in {parts} parts that do not reach each other: add [[wiring]] or links"
        )
    if not scenario.access and not any(len(brokers & {*link}) == 1 for link in all_links(scenario)):
        found.append("no client has a link to a broker: add [[access]]")
    return found


def broker_groups(scenario: "Scenario") -> list[str]:
    """What is not even a list of names is refused by whoever knows the protocol."""
    protocol = scenario.protocol
    if protocol.get("kind") not in WITH_BROKERS:
        return []
    groups = protocol.get("brokers", ["broker"])
    return [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []


def needs_a_tree(scenario: "Scenario") -> bool:
    protocol = scenario.protocol
    return protocol.get("kind") in ON_A_TREE and protocol.get("handover", "relocation") == "relocation"


def hosts_of(scenario: "Scenario", groups: list[str]) -> set[str]:
    return {host for group in scenario.hosts if group.name in groups for host in group.hosts()}


def all_links(scenario: "Scenario") -> list[tuple[str, str]]:
    hosts = {group.name: group.hosts() for group in scenario.hosts}
    links = [(link.a, link.b) for link in scenario.links]
    for wiring in scenario.wiring:
        links += [(link.a, link.b) for link in wiring.links(hosts[wiring.of], Random(0))]
    return links


def links_between_brokers(scenario: "Scenario", groups: list[str]) -> list[tuple[str, str]]:
    brokers = hosts_of(scenario, groups)
    return [link for link in all_links(scenario) if brokers.issuperset(link)]


def parts_of(hosts: set[str], links: list[tuple[str, str]]) -> int:
    """Into how many parts the links leave the hosts."""
    part = {host: host for host in hosts}

    def root(host: str) -> str:
        while part[host] != host:
            host = part[host]
        return host

    for one, other in links:
        part[root(one)] = root(other)
    return sum(part[host] == host for host in hosts)
