"""docs/PROTOCOL.md is normative: every rule has a test that carries its number, and every number is a rule's."""

import re

from tests.docs.pages import ROOT, text_of

RULE = re.compile(r"^- \*\*P-(\d+)\*\* ", re.MULTILINE)
NUMBER = re.compile(r"_rule_(\d+)(?=[_(])")
TESTS = sorted((ROOT / "tests/broker/mqtt").glob("test_protocol_*.py"))


def numbers_tested(text: str) -> set[int]:
    names = re.findall(r"^def (test_\w+\()", text, re.MULTILINE)
    return {int(number) for name in names for number in NUMBER.findall(name)}


def test_rules_are_numbered_in_the_order_of_the_page() -> None:
    found = [int(number) for number in RULE.findall(text_of("docs/PROTOCOL.md"))]
    assert found == list(range(1, len(found) + 1))
    assert len(found) > 60


def test_every_rule_has_a_test_and_every_test_a_rule() -> None:
    rules = {int(number) for number in RULE.findall(text_of("docs/PROTOCOL.md"))}
    tested = set().union(*(numbers_tested(path.read_text(encoding="utf-8")) for path in TESTS))
    assert sorted(rules - tested) == [], "rules without a test named after them, as test_rule_7_…"
    assert sorted(tested - rules) == [], "tests of rules that are not there"


def test_the_numbers_of_a_test_are_read_from_its_name() -> None:
    text = "def test_this_rule_3() -> None:\ndef test_rule_4_rule_51_more(qos: int)\ndef helper_rule_9():\n"
    assert numbers_tested(text) == {3, 4, 51}


def test_rules_that_other_rules_name_are_there() -> None:
    text = text_of("docs/PROTOCOL.md")
    assert {int(each) for each in re.findall(r"P-(\d+)", text)} == {int(each) for each in RULE.findall(text)}


def test_sections_that_modules_name_are_there() -> None:
    headings = {int(each) for each in re.findall(r"^## (\d+)\. ", text_of("docs/PROTOCOL.md"), re.MULTILINE)}
    for path in sorted((ROOT / "src/roamcast").rglob("*.py")):
        for said in re.findall(r"docs/PROTOCOL\.md, (?:sections? )?([\d and,]+)", path.read_text(encoding="utf-8")):
            assert {int(each) for each in re.findall(r"\d+", said)} <= headings, path
