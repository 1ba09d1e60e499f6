"""An estimate that needs nothing but bytes, for when the exact vocabularies cannot be loaded.

Every byte of the UTF-8 text belongs to a class, every class has a price in tokens, and the sum leans to the upper side.
Constants: quantile regression over 71 000 chunks of 2 000 characters of recorded agent sessions, then raised together
until at least 99.9 % of the chunks are not below the exact o200k_base count; the mean overshoot is 40 %
(`scripts/fit_counters.py` prints both). No text can exceed one token a byte, so that is the ceiling of the estimate.
"""

_CLASS_TOKENS = {
    b"l": 0.27,  # a-z
    b"u": 0.34,  # A-Z
    b"d": 1.35,  # 0-9: above one, because the letters between the digits of hashes and ids break up as well
    b"s": 0.06,  # space: mostly part of the word that follows
    b"n": 0.80,  # line ends and tabs
    b"p": 0.84,  # ASCII punctuation
    b"x": 1.00,  # other control characters
    b"2": 1.00,  # first byte of a two-byte character: 0.4 in ordinary text, 1.5 in random letters
    b"3": 1.50,  # three bytes: 0.8 in Chinese or Korean text, 1.9 in random Han characters
    b"4": 3.00,  # four bytes: emoji take 2.2 to 2.8
}
# Encoded data has letters without breaks, and its letters cost about twice as much as those of words.
_LETTERS_PER_BREAK = 8  # only 0.03 % of the recorded chunks have more
_UNBROKEN_TOKENS = 0.45  # base64 and random letters cost 0.52 to 0.68 tokens a letter


def _byte_class(byte: int) -> str:
    char = chr(byte)
    if byte >= 0x80:
        return "c" if byte < 0xC0 else "2" if byte < 0xE0 else "3" if byte < 0xF0 else "4"
    if char.isalnum():
        return "d" if char.isdigit() else "l" if char.islower() else "u"
    return "s" if char == " " else "n" if char in "\r\n\t" else "p" if char.isprintable() else "x"


_CLASSES = "".join(map(_byte_class, range(256))).encode("ascii")


class ByteClassCounter:
    """An estimate of o200k_base from above; `stands_for` names the vocabulary that could not be used, `reason` tells why."""

    __slots__ = ("name", "reason")

    def __init__(self, *, stands_for: str = "o200k_base", reason: str = "") -> None:
        self.name = f"bytes~{stands_for}"
        self.reason = reason

    def count(self, text: str) -> int:
        # A lone surrogate becomes three bytes, as U+FFFD would.
        data = text.encode("utf-8", "surrogatepass")
        classes = data.translate(_CLASSES)
        sizes = {name: classes.count(name) for name in _CLASS_TOKENS}
        tokens = sum(sizes[name] * price for name, price in _CLASS_TOKENS.items())
        breaks = sizes[b"s"] + sizes[b"n"] + sizes[b"p"]
        unbroken = sizes[b"l"] + sizes[b"u"] + sizes[b"d"] - _LETTERS_PER_BREAK * (breaks + 1)
        return min(len(data), int(tokens + _UNBROKEN_TOKENS * max(0, unbroken)) + 1)
