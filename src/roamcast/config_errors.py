"""Errors in words that help: of a validation the key as it stands in the file, what was found, what is allowed; of a
file that cannot be read the reason alone."""

import os
import re
import ssl
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import inspect

PATH = re.compile(r" - at `(?:key in )?(?P<path>\$[^`]*)`$")
SOME_KEY = "…"
STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`")
LENGTH = re.compile(r"Expected `array` of length (?P<wanted>\d+), got (?P<found>\d+)")
NO_CHOICE = re.compile(r"Invalid (?:enum )?value (?P<found>.+)")
UNKNOWN_AUTHORITY = (18, 19, 20)
"""OpenSSL's numbers of what becomes of a certificate whose authority nobody has named."""

WORDS = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "array": "a list",
    "object": "a table",
    "date": "a date",
    "datetime": "a date",
    "time": "a time of day",
}
"""What msgspec calls the things that can stand in a TOML file, and what the reference of scenarios calls them."""


def unreadable(problem: OSError | UnicodeDecodeError) -> str:
    """Why a file could not be read, for after its path: Python's own words name the path once more."""
    if isinstance(problem, UnicodeDecodeError):
        return f"not UTF-8 text at byte {problem.start}"
    return problem.strerror or str(problem)


def network_reason(problem: Exception) -> str:
    """What a network said, without its number and the address: whoever prints this names the address already."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        advice = "; name its authority (--ca, or ssl= in Python)" if problem.verify_code in UNKNOWN_AUTHORITY else ""
        return f"its certificate is not trusted: {problem.verify_message}{advice}"
    if isinstance(problem, ssl.SSLError) or not isinstance(problem, OSError):
        return str(problem) or type(problem).__name__
    if problem.errno is not None and problem.errno > 0:
        return os.strerror(problem.errno)
    return problem.strerror or str(problem) or type(problem).__name__


def error_text(problem: msgspec.ValidationError, given: object, wanted: Any) -> str:
    """msgspec's message in the words of the reference, with the path as a TOML key, and what is allowed there."""
    text = str(problem)
    found = PATH.search(text)
    steps = named_steps(steps_of(found["path"]), text, given, wanted) if found else []
    what = text[: found.start()] if found else text
    key = key_of(steps)
    keys = allowed_keys(inspect.type_info(wanted), given, steps)
    unknown = re.search(r"unknown field `([^`]*)`", what)
    if unknown:
        near = get_close_matches(unknown[1], keys, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        where = f"{key}." if key else ""
        return f"unknown key '{where}{unknown[1]}'{hint} (allowed here: {', '.join(keys)})"
    missing = re.fullmatch(r"Object missing required field `([^`]*)`", what)
    if missing:
        return f"{key or 'the file'}: missing key '{missing[1]}'"
    # A check of several keys starts with the one it complains about.
    inner = re.match(r"(\w+)(?=\.\w+: |: )", what)
    if inner and inner[1] in keys:
        return f"{key}.{what}" if key else what
    allowed = allowed_at(inspect.type_info(wanted), given, steps)
    said = in_plain_words(what) + bracket_hint(what, steps)
    return f"{f'{key}: ' if key else ''}{said}{f' (allowed: {allowed})' if allowed else ''}"


def in_plain_words(what: str) -> str:
    """A message about a type or a choice without msgspec's names of types; any other message as it is."""
    if mismatch := EXPECTED.fullmatch(what):
        found = "a number with a fraction" if mismatch["found"] == "float" else WORDS.get(mismatch["found"], "that")
        return f"expected {either(mismatch['wanted'].split(' | '))}, not {found}"
    if mismatch := LENGTH.fullmatch(what):
        return f"expected a list of {mismatch['wanted']}, not of {mismatch['found']}"
    if mismatch := NO_CHOICE.fullmatch(what):
        return f"there is no {mismatch['found']}"
    return what


def either(types: list[str]) -> str:
    """`null` is a key that is left out, so nobody can write it; an integer is a number too."""
    said = [WORDS.get(each, each) for each in types if each != "null" and not (each == "int" and "float" in types)]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


def key_of(steps: list[str | int]) -> str:
    """A path as one writes it in TOML; the entries of an array are counted from 1."""
    return ".".join(step if isinstance(step, str) else f"[{step + 1}]" for step in steps).replace(".[", "[")


def bracket_hint(what: str, steps: list[str | int]) -> str:
    """TOML has two kinds of headings, easily mistaken for each other."""
    heading = ".".join(step for step in steps if isinstance(step, str))
    if what == "Expected `array`, got `object`":
        return f"; write [[{heading}]], since there may be several"
    if what.startswith("Expected `object") and what.endswith("got `array`"):
        return f"; write [{heading}], since there is only one"
    return ""


def steps_of(path: str) -> list[str | int]:
    return [name or (SOME_KEY if index == "..." else int(index)) for name, index in STEP.findall(path)]


def named_steps(steps: list[str | int], text: str, given: object, wanted: Any) -> list[str | int]:
    """The steps with the keys that msgspec leaves out: it does not say under which key of a table the mistake is.

    It is the one that, alone in its table, still gets the same error_text.
    """
    if SOME_KEY not in steps:
        return steps
    at = steps.index(SOME_KEY)
    table = given
    for step in steps[:at]:
        table = child_of(table, step)
    for key in table if isinstance(table, dict) else ():
        alone = with_only(given, steps[:at], key)
        try:
            msgspec.convert(alone, wanted)
        except msgspec.ValidationError as problem:
            if str(problem) == text:
                return named_steps([*steps[:at], key, *steps[at + 1 :]], text, alone, wanted)
    return steps


def with_only(given: object, steps: list[str | int], key: str) -> object:
    """What was given, with nothing but `key` in the table that the steps lead to."""
    if not steps:
        return {key: given[key]} if isinstance(given, dict) else given
    first, rest = steps[0], steps[1:]
    if isinstance(given, dict):
        return {name: with_only(each, rest, key) if name == first else each for name, each in given.items()}
    if isinstance(given, list):
        return [with_only(each, rest, key) if number == first else each for number, each in enumerate(given)]
    return given


def types_at(info: inspect.Type, given: object, steps: list[str | int]) -> list[inspect.Type]:
    """The types that the value at the end of `steps` may have, following the given `kind` through tagged unions."""
    candidates = [info]
    for step in steps:
        following: list[inspect.Type] = []
        for each in flatten(candidates):
            if isinstance(each, inspect.StructType) and isinstance(step, str) and fits_tag(each, given):
                following += [field.type for field in each.fields if field.encode_name == step]
                if step == each.tag_field:
                    following += [inspect.LiteralType((each.tag,))]
            elif isinstance(each, inspect.DictType):
                following.append(each.value_type)
            elif isinstance(each, inspect.VarTupleType | inspect.ListType):
                following.append(each.item_type)
            elif isinstance(each, inspect.TupleType) and isinstance(step, int):
                following += each.item_types[step : step + 1]
        given = child_of(given, step)
        candidates = following
    return flatten(candidates)


def flatten(types: list[inspect.Type]) -> list[inspect.Type]:
    flat: list[inspect.Type] = []
    for each in types:
        flat += flatten(list(each.types)) if isinstance(each, inspect.UnionType) else [each]
    return flat


def fits_tag(struct: inspect.StructType, given: object) -> bool:
    """Whether the given table says it is of this kind; one that says nothing known may be of any."""
    if struct.tag_field is None or not isinstance(given, dict):
        return True
    return given.get(struct.tag_field) in (None, struct.tag) or not isinstance(given.get(struct.tag_field), str)


def child_of(given: object, step: str | int) -> object:
    if isinstance(given, dict):
        return given.get(step)
    if isinstance(given, list) and isinstance(step, int) and step < len(given):
        return given[step]
    return None


def allowed_keys(info: inspect.Type, given: object, steps: list[str | int]) -> list[str]:
    here = given
    for step in steps:
        here = child_of(here, step)
    keys: dict[str, None] = {}
    for each in types_at(info, given, steps):
        if isinstance(each, inspect.StructType) and fits_tag(each, here):
            keys.update(dict.fromkeys([each.tag_field] if each.tag_field else []))
            keys.update(dict.fromkeys(field.encode_name for field in each.fields))
    return list(keys)


def allowed_at(info: inspect.Type, given: object, steps: list[str | int]) -> str:
    """The values a choice allows: literals, and the kinds of a tagged union."""
    if steps:
        parents = types_at(info, None, steps[:-1])
        kinds = [
            str(each.tag) for each in parents if isinstance(each, inspect.StructType) and each.tag_field == steps[-1]
        ]
        if kinds:
            return ", ".join(kinds)
    values: list[str] = []
    for each in types_at(info, given, steps):
        if isinstance(each, inspect.LiteralType):
            values += [str(value) for value in each.values]
    return ", ".join(values)
