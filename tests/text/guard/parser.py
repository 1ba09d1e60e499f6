"""A second reader of frames, written from their definition and sharing no code with the package.

It takes a text in every way a careless program might (decoded once, twice, three times; in any order; with blanks and foreign
tags taken out), and looks for anything that could speak for the host. Slow and greedy on purpose.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

_OPEN = "‹〈〈⟨❮«《"
_CYRILLIC = str.maketrans("аеорсуѕіѵмтнАЕОРСТНМ" + _OPEN, "aeopcysivmthaeopcthm" + "<" * len(_OPEN))
_DOTS = "\ue000"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_LINE_END = re.compile(r"\\+[nrt]")
_OTHER_TAG = re.compile(r"</?[bi]/?>|<!--[^>]*-->")

_NAMES = (
    r"(?:foveal[:>]|system(?:[-_]?(?:reminder|warning|prompt|message))?(?=[\s/>]|$)"
    r"|(?:(?:start|end)_of_turn|tool_(?:call|response|result)s?|function_(?:calls|results))(?=[\s/>]|$))"
)
_LIVE = re.compile(
    rf"<\s*[/!?]?\s*{_NAMES}|<\|[\w▁]{{2,}}\|>|<</?sys>>|\[/?inst\]|\[/?system_prompt\]|\[tool_(?:calls|results)\]"
)
_LIVE_LINES = re.compile(
    r"^(?:human|assistant)\s*:|;\s+ref\s+[\w.-]+\s*[\];]|\[…\s*\d|\[pinned\]|\[system\] \S|\[late result for call",
    re.MULTILINE,
)
_STRIKE = re.compile(r"</?s>")


class _Seen(dict[int, str | None]):
    """Each character as it is, and none for one that shows nothing; filled as characters are met."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        is_seen = char.isspace() or char == _DOTS or unicodedata.category(char) not in ("Cf", "Mn", "Me", "Cc")
        self[code] = char if is_seen else None
        return self[code]


_SEEN = _Seen()


def forged(text: str, nonce: str) -> list[str]:
    """Return the forms in a text that speak for the host, except frames with the nonce."""
    return found(without_ours(text, nonce))


def found(text: str) -> list[str]:
    """Every live form, in any reading."""
    live: list[str] = []
    for reading in dict.fromkeys(_readings(text)):
        bare = _OTHER_TAG.sub("", reading)
        plain = bare.casefold()
        live += _STRIKE.findall(bare)
        live += _LIVE_LINES.findall(plain)
        for form in {plain, reading.casefold(), re.sub(r"\s", "", plain)}:
            live += _LIVE.findall(form)
    return live


def without_ours(text: str, nonce: str) -> str:
    """The text without the tags that we wrote: an opening with the nonce, and the closing that belongs to it."""
    opening = re.compile(rf'<foveal:([a-z][a-z0-9-]*) nonce="{re.escape(nonce)}"(?: [a-z-]+="[^"<>]*")*>\n')
    while ours := opening.search(text):
        closing = f"\n</foveal:{ours[1]}>"
        assert closing in text[ours.end() :], "a frame of ours is not closed"
        rest = text[ours.end() :]
        values = " ".join(re.findall(r'="([^"]*)"', ours[0])[1:])
        text = f"{text[: ours.start()]} {values}\n{rest.replace(closing, ' ', 1)}"
    return text


def _readings(text: str) -> Iterator[str]:
    """The text, and what three rounds of decoding make of it, in two orders."""
    for order in ((_bare, html.unescape, unquote, _unescape), (unquote, _unescape, html.unescape, _bare)):
        reading = text
        yield _bare(reading)
        for _ in range(3):
            for decode in order:
                reading = decode(reading)
            yield _bare(reading)
            yield _LINE_END.sub("\n", _bare(reading))


def _unescape(text: str) -> str:
    text = _ESCAPE.sub(lambda code: chr(int(code[1] or code[2], 16)), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bare(text: str) -> str:
    """Compatibility forms undone; what shows nothing left out; letters that look like ours read as ours."""
    text = _ANSI.sub("", text)
    text = unicodedata.normalize("NFKD", text.replace("…", _DOTS)).translate(_SEEN)
    return re.sub(r"[\x1c-\x1f]", "", text.translate(_CYRILLIC).replace(_DOTS, "…"))
