"""Filter text as tokens, each with its place. Linear in the text, and the first to meet hostile input.

Text stands in single quotes, a quote within it doubled; an attribute whose name is not a plain word stands in double
quotes, likewise. There are no comments.
"""

import re
from enum import Enum
from typing import NamedTuple

from roamcast.model.filter.bad_filter import BadFilter
from roamcast.model.filter.words import KEYWORDS, shown

TEXT_CHARS_MAX = 4_096


class Sort(Enum):
    KEYWORD = "keyword"
    NAME = "name"
    QUOTED_NAME = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    SIGN = "sign"
    END = "end"


class Token(NamedTuple):
    sort: Sort
    value: str
    """Of a keyword in upper case, of quoted text without its quotes, of anything else as written."""
    start: int


NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
SIGN = re.compile(r"<>|<=|>=|!=|==|&&|\|\||[=<>(),+\-*/%^]")
QUOTED = {"'": re.compile(r"'((?:[^']|'')*+)'"), '"': re.compile(r'"((?:[^"]|"")*+)"')}

MISTAKES = {
    "==": "use = for 'equal'",
    "&&": "use AND",
    "||": "use OR between conditions; joining text is not part of the filter language",
    "!": "use NOT before a condition, <> for 'not equal'",
    "‘": "use straight single quotes ' for text",
    "’": "use straight single quotes ' for text",
    "“": "use straight single quotes ' for text",
    "”": "use straight single quotes ' for text",
    "`": "use single quotes ' for text",
    ".": "a number begins with a digit: write 0.5, not .5",
    ";": "a filter is one condition; join several with AND or OR",
    "[": "use round brackets: x IN (1, 2)",
    "{": "this looks like CQL2-JSON, but filter text is expected",
    "$": "parameters are not part of the filter language",
}


def tokenize(text: str) -> list[Token]:
    """The tokens, an END last; raises `BadFilter` at the first character that begins none."""
    if len(text) > TEXT_CHARS_MAX:
        raise BadFilter(f"filter text of {len(text)} characters; at most {TEXT_CHARS_MAX}")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character.isspace():
            at += 1
        elif character in QUOTED:
            token, at = quoted(text, at)
            tokens.append(token)
        elif character.isalpha() or character == "_":
            token, at = word(text, at)
            tokens.append(token)
        elif (number := NUMBER.match(text, at)) is not None:
            at = number.end()
            if at < len(text) and (text[at].isalnum() or text[at] in "_."):
                raise BadFilter(
                    f"the number {shown(number[0])} runs into '{shown(text[at])}'", position=at, text=text
                )
            tokens.append(Token(Sort.NUMBER, number[0], number.start()))
        else:
            token, at = sign(text, at)
            tokens.append(token)
    tokens.append(Token(Sort.END, "", len(text)))
    return tokens


def quoted(text: str, at: int) -> tuple[Token, int]:
    quote = text[at]
    found = QUOTED[quote].match(text, at)
    if found is None:
        what = "text" if quote == "'" else "a name"
        raise BadFilter(f"{what} begins here with {quote} and never ends", position=at, text=text)
    sort = Sort.TEXT if quote == "'" else Sort.QUOTED_NAME
    return Token(sort, found[1].replace(quote * 2, quote), at), found.end()


def word(text: str, at: int) -> tuple[Token, int]:
    end = at + 1
    while end < len(text) and (text[end].isalnum() or text[end] in "_.:"):
        end += 1
    found = text[at:end]
    if found.upper() in KEYWORDS:
        return Token(Sort.KEYWORD, found.upper(), at), end
    return Token(Sort.NAME, found, at), end


def sign(text: str, at: int) -> tuple[Token, int]:
    found = SIGN.match(text, at)
    written = found[0] if found is not None else text[at]
    if found is None or written in MISTAKES:
        said = MISTAKES.get(written, "this character has no meaning in a filter; text stands in single quotes")
        raise BadFilter(f"'{shown(written)}': {said}", position=at, text=text)
    return Token(Sort.SIGN, "<>" if written == "!=" else written, at), found.end()
