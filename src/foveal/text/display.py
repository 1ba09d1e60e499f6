"""Text of others made safe to show: on a terminal, or inside one line that Foveal writes.

Each function has another reader, and the results differ on purpose:

- `visible`: a recorded text on a terminal or in a report. Lines stay, control characters become pictures.
- `visible_line`: what somebody is asked about. All of it, on one line; line feeds and tabs become pictures as well.
- `one_line`: a value in a reminder or an error. Blanks and invisible characters collapse to one space.
- `replace_invisible`: a path in a listing. Invisible characters become `_`, so that two paths stay distinguishable.
- `safe_file_name`: the last step of such a path, short, with its extension.
- `without_passwords`: a text that may repeat the address of a database, in an error of a command.
- `printable`: a path or a value in an error message. Unprintable characters are escaped, so that the user can find the file.

A name inside the engine's own bracketed lines and tags goes through `foveal.text.guard.safe_name`, which also neutralises it.
"""

import re
import unicodedata

from foveal.text.shorten.cut import boundary

LINE_CHARS = 160
"""One file name, todo or tool name: enough to recognise it by."""
FILE_NAME_CHARS = 120
_SUFFIX_CHARS = 12
_MOST_PATH = 4_096
_PATH_CHARS, _PATH_END_CHARS = 200, 80

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f]"  # C0 without tab and line feed: escape sequences, carriage returns, backspaces
    "|[\x80-\x9f]"  # C1: some terminals take U+009B for ESC [
    "|[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"  # marks and overrides of direction, invisible joints
    "|[\ud800-\udfff]"  # halves of characters, which no encoding can write
    "|[\U000e0000-\U000e007f]"  # tags: a whole alphabet that no font shows
)
# White space, controls, line and direction marks, characters without width: a name must not begin a line of its own.
_NOT_PLAIN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]+")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of controls, directions, halves of characters, and code points that no font shows."""

_PASSWORD = re.compile(
    r"((?:\b[a-z][a-z0-9+.-]*:|\bpostgres(?:ql)?)/+[^\s:/@]*:)\S+(?=@)|([?&](?:ssl)?password=)[^\s&'\"]+", re.IGNORECASE
)
"""The password of an address, before its host or among its parameters, and what is before it."""


def visible(text: str) -> str:
    """Return the text with its control characters shown: ESC as ␛, the others by their picture or number.

    Nothing in the result can drive a terminal or turn the reading order.
    """
    return _CONTROLS.sub(_picture, text)


def visible_line(text: str) -> str:
    """Return all of the text on one line, with its control characters, line feeds and tabs shown: nothing in it is hidden, and
    nothing looks like a line of somebody else's."""
    return visible(text).replace("\n", "␊").replace("\t", "␉")


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def one_line(text: str, most: int = LINE_CHARS) -> str:
    """Return the text on one line of at most about `most` characters, without invisible characters."""
    if len(text) <= most and text.isprintable():
        return text.strip()
    # Collapsed text is shorter than it was: four times as much is read, and no more.
    plain = _NOT_PLAIN.sub(" ", text[: 4 * most]).strip()
    if len(plain) <= most and len(text) <= 4 * most:
        return plain
    return f"{plain[: boundary(plain, most)]}…"


def replace_invisible(text: str) -> str:
    """Return the text on one line, with `_` for each invisible character. Names in archives are paths, and stay whole."""
    return " ".join("".join("_" if unicodedata.category(c) in _INVISIBLE else c for c in text[:_MOST_PATH]).split())


def safe_file_name(name: str) -> str:
    """Return the last step of a file's name, visible and on one line; of a long one the beginning and the extension."""
    last = name.replace("\\", "/").rstrip("/ ").rpartition("/")[2]
    shown = replace_invisible(last if len(last) <= _MOST_PATH else last[:FILE_NAME_CHARS] + last[-_SUFFIX_CHARS:])
    if not shown.strip("._ "):
        return "unnamed"
    if len(shown) <= FILE_NAME_CHARS:
        return shown
    suffix = shown[-_SUFFIX_CHARS:].rpartition(".")[2]
    tail = f"….{suffix}" if "." in shown[-_SUFFIX_CHARS:] else "…"
    return shown[: FILE_NAME_CHARS - len(tail)] + tail


def printable(value: object) -> str:
    """Return a path or another value for use in a sentence: on one line, short, and with nothing in it that a terminal obeys."""
    text = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in str(value)[:400])
    return text if len(text) <= _PATH_CHARS else f"{text[:_PATH_END_CHARS]}…{text[-_PATH_END_CHARS:]}"


def without_passwords(text: str) -> str:
    """Return a text with … in the place of the passwords of addresses in it, also of such that a `Path` has lost a / of."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}…", text)
