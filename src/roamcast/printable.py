"""What others wrote, on somebody's terminal: it is shown, and commands nothing."""


def shown(text: str) -> str:
    """On one line, and nothing in it that a terminal would obey: others chose what it says."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shown_json(text: str) -> str:
    """The same for JSON, which says what it said: by itself it leaves some signs as they are that terminals obey."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else escaped(each) for each in text)


def escaped(sign: str) -> str:
    """As JSON may write any sign of a string: in units of UTF-16."""
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
