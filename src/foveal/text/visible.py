"""Text from a recording, made harmless for whoever looks at it: nothing in it can drive a terminal or turn the reading order."""

import re

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f]"  # C0 without tab and line feed: escape sequences, carriage returns, backspaces
    "|[\x80-\x9f]"  # C1: some terminals take U+009B for ESC [
    "|[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"  # marks and overrides of direction, invisible joints
    "|[\ud800-\udfff]"  # halves of characters, which no encoding can write
    "|[\U000e0000-\U000e007f]"  # tags: a whole alphabet that no font shows
)


def visible(text: str) -> str:
    """The text with its control characters shown: ESC as ␛, the others by their picture or number."""
    return _UNSEEN.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"
