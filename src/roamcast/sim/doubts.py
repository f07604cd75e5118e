"""What is allowed in a scenario and yet hardly meant: said before the run, because the result would not show why."""

from random import Random

from roamcast.model.subject import subject_matches
from roamcast.sim.scenario import Scenario


def doubts(scenario: Scenario) -> list[str]:
    found: list[str] = []
    if scenario.radio is None and not (scenario.links or scenario.wiring or scenario.access):
        found.append("nobody can reach anybody: there is neither a [radio] nor a link")
    found += broker_doubts(scenario)
    subjects = [rule.subject for rule in scenario.publish]
    applications = any(group.application for group in scenario.hosts)
    for rule in scenario.subscribe:
        if not applications and not any(subject_matches(rule.subject, subject) for subject in subjects):
            published = ", ".join(subjects) or "nothing"
            found.append(f"nobody publishes what '{rule.subject}' asks for; published is {published}")
    for name, at_s in fault_times(scenario):
        if at_s >= scenario.seconds:
            found.append(f"{name} at {at_s:g} s comes after the end of the run at {scenario.seconds:g} s")
    for told in scenario.publish:
        for scope in (told.relevance, told.audience):
            if scope is not None and scope.shape() is None and not scope.filter:
                found.append(f"a scope of '{told.subject}' has neither a shape nor a filter: it holds everybody")
    return found


def broker_doubts(scenario: Scenario) -> list[str]:
    """Brokers that nobody reaches, that do not reach each other, or that send events round in a circle."""
    protocol = scenario.protocol
    if (
        protocol.get("kind") not in ("broker", "resubscribing")
        or protocol.get("handover", "relocation") != "relocation"
    ):
        return []
    hosts = {group.name: group.hosts() for group in scenario.hosts}
    groups = [group for group in protocol.get("brokers", ["broker"]) if isinstance(group, str)]
    unknown = [group for group in groups if group not in hosts]
    if unknown:
        return [
            f"protocol.brokers: there is no group '{unknown[0]}', so nobody is a broker; there are {', '.join(hosts)}"
        ]
    brokers = {host for group in groups for host in hosts[group]}
    links = [(link.a, link.b) for link in scenario.links]
    for wiring in scenario.wiring:
        links += [(link.a, link.b) for link in wiring.links(hosts[wiring.of], Random(0))]
    found = []
    between = [link for link in links if brokers.issuperset(link)]
    parts = parts_of(brokers, between)
    if parts > 1:
        found.append(
            f"the brokers hang together in {parts} parts that do not reach each other: add [[wiring]] or links"
        )
    if len(between) > len(brokers) - parts:
        found.append(
            "the brokers are linked in a circle, and events will go round: use line, star, tree or random-tree"
        )
    if not scenario.access and not any(len(brokers & {*link}) == 1 for link in links):
        found.append("no client has a link to a broker: add [[access]]")
    return found


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


def fault_times(scenario: Scenario) -> list[tuple[str, float]]:
    faults = scenario.faults
    return [
        *((f"the crash of '{crash.host}'", crash.at_s) for crash in faults.crash),
        *((f"the pause of '{pause.host}'", pause.at_s) for pause in faults.pause),
        *((f"the cut between '{cut.a}' and '{cut.b}'", cut.at_s) for cut in faults.cut),
    ]
