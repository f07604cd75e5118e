"""What can be said of LIKE patterns without a text at hand: the one text, the prefix, and which holds which."""

MANY = "%%"
ONE = "__"
"""Wildcards among the tokens of a pattern are doubled, so that no literal character is taken for one."""

COMPARED_MAX = 1 << 14
"""The most pairs of tokens that `pattern_covers` looks at; longer patterns must be equal."""

LAST_CHARACTER = "\U0010ffff"


def tokens_of(pattern: str) -> list[str]:
    """The literal characters and wildcards of a pattern, in order."""
    tokens: list[str] = []
    taken_literally = False
    for character in pattern:
        if character == "\\" and not taken_literally:
            taken_literally = True
            continue
        wildcard = character in "%_" and not taken_literally
        tokens.append(character * 2 if wildcard else character)
        taken_literally = False
    if taken_literally:
        tokens.append("\\")
    return tokens


def constant_text(pattern: str) -> str | None:
    """The one text that fits, if the pattern has no wildcard."""
    tokens = tokens_of(pattern)
    return None if MANY in tokens or ONE in tokens else "".join(tokens)


def prefix_of(pattern: str) -> tuple[str, bool]:
    """What every fitting text begins with, and whether every text that begins so fits."""
    tokens = tokens_of(pattern)
    length = next((index for index, token in enumerate(tokens) if token in (MANY, ONE)), len(tokens))
    rest = tokens[length:]
    return "".join(tokens[:length]), bool(rest) and all(token == MANY for token in rest)


def after_prefix(prefix: str) -> str | None:
    """The smallest text, by code point, above all that begin with `prefix`; None if there is no such text."""
    stem = prefix.rstrip(LAST_CHARACTER)
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


def pattern_covers(wide: str, narrow: str) -> bool:
    """Whether `wide` can be laid over `narrow`: then it fits every text that `narrow` fits.

    `%` is laid over any run of tokens, `_` over one token that stands for a single character, a character over
    itself.
    """
    if wide == narrow:
        return True
    over, under = tokens_of(wide), tokens_of(narrow)
    if len(over) * len(under) > COMPARED_MAX:
        return False
    # reached[i]: the tokens of `over` so far can be laid over the first i tokens of `under`.
    reached = [True] + [False] * len(under)
    for token in over:
        laid = [token == MANY and reached[0]]
        for index, below in enumerate(under):
            if token == MANY:
                laid.append(laid[-1] or reached[index + 1])
            else:
                laid.append(reached[index] and (token == below or (token == ONE and below != MANY)))
        reached = laid
    return reached[-1]
