"""The one error that reading a filter raises, whatever was given."""

EXCERPT_CHARS = 72
LINE_BREAKING = dict.fromkeys((*range(32), 0x7F, 0x85, 0x2028, 0x2029), " ")


class BadFilter(ValueError):
    """A filter that cannot be used; `reason` says why and what was expected, in the words of the language.

    `position` is the offset in the text (0-based, in characters) and `path` the place in the CQL2-JSON, each None
    or empty when it is not known. As a string: the reason, and below it the text with a caret under the place.
    """

    def __init__(self, reason: str, *, position: int | None = None, path: str = "", text: str = "") -> None:
        self.reason = reason
        self.position = position
        self.path = path
        super().__init__(full_message(reason, position, path, text))


def full_message(reason: str, position: int | None, path: str, text: str) -> str:
    if position is not None:
        where = f"at character {position + 1}: " if position < len(text) else "at the end: "
        return f"{where}{reason}\n{marked(text, position)}" if text.strip() else reason
    return f"at {path}: {reason}" if path else reason


def marked(text: str, position: int) -> str:
    """The text on one line, cut around `position` if it is long, with a caret below it."""
    start = max(0, min(position - EXCERPT_CHARS // 2, len(text) - EXCERPT_CHARS))
    excerpt = text[start : start + EXCERPT_CHARS].translate(LINE_BREAKING)
    before = "…" if start > 0 else ""
    after = "…" if start + EXCERPT_CHARS < len(text) else ""
    printable = excerpt.encode("utf-8", "replace").decode("utf-8")
    return f"  {before}{printable}{after}\n  {' ' * (len(before) + position - start)}^"
