"""Warnings before a run: settings that are valid but probably a mistake that the result would not explain."""

from roamcast.model.subject import subject_matches
from roamcast.sim.brokers import broker_warnings
from roamcast.sim.scenario import Scenario


def warnings_of(scenario: Scenario) -> list[str]:
    found: list[str] = []
    if scenario.radio is None and not (scenario.links or scenario.wiring or scenario.access):
        found.append("nobody can reach anybody: there is neither a [radio] nor a link")
    found += broker_warnings(scenario)
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


def fault_times(scenario: Scenario) -> list[tuple[str, float]]:
    faults = scenario.faults
    return [
        *((f"the crash of '{crash.host}'", crash.at_s) for crash in faults.crash),
        *((f"the pause of '{pause.host}'", pause.at_s) for pause in faults.pause),
        *((f"the cut between '{cut.a}' and '{cut.b}'", cut.at_s) for cut in faults.cut),
    ]
