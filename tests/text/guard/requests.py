"""A prompt as its reader takes it: the strings of a request, without the lines that the engine itself wrote."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from foveal.testing.builders import SECRET
from foveal.text.guard import nonce
from foveal.values.prompt import Prompt

from .parser import found, without_ours

_HOSTS = frozenset(("tools", "system", "instructions", "system_instruction", "model", "thought_signature", "data"))
"""Keys of what the host wrote, and of what is no text."""
_STRUCTURED = frozenset(("input", "args"))
_REF = re.compile(r"; ref ([a-z2-7]{10})(?:\.\.[a-z2-7]{10})?(?:\.\d+)?(?=(?:; newer: [a-z2-7.\d]+)?\])")
_MARK = re.compile(r"\[… (?!98,765)[\d,-]+")
"""What is left out, as stand-ins say it; attacks name a number that no test of ours leaves out."""
_LATE = re.compile(r"\[late result for call [A-Za-z0-9_-]{0,64}(?:, which failed)?\]\Z")


NONCE = nonce(SECRET)
"""Of the sessions that are read here."""


def live(prompt: Prompt, entries: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return every string of the request in which a foreign text speaks for the host, with the form. `entries` are the
    session's."""
    known = list(entries)
    ours = {entry[:10] for entry in known}
    texts = {_without_lines(without_ours(text, NONCE), ours) for text in strings(prompt.request)}
    return [(text, forms) for text in sorted(texts) if (forms := list(_found(text)))]


def live_in(
    prompt: Prompt, entries: Iterable[str], filler: re.Pattern[str], *, with_tools: bool = False, pins: int = 0
) -> list[tuple[str, list[str]]]:
    """Return the same for long texts: lines of filler, which hold nothing, divide them into pieces that are read one by one.

    `pins` passages are pinned: our own label may stand before each of them, and before nothing else.
    """
    known = {entry[:10] for entry in entries}
    tools = (prompt.request.get("tools") or prompt.request.get("config", {}).get("tools")) if with_tools else None
    texts = {_without_labels(text, pins) for text in (*strings(prompt.request), *strings(tools))}
    pieces = {piece for text in texts for piece in filler.split(_without_lines(without_ours(text, NONCE), known))}
    return [(piece, forms) for piece in sorted(pieces) if (forms := list(_found(piece)))]


def strings(value: Any, *, quoted: bool = False) -> Iterator[str]:
    """Return the strings that a model reads. Strings inside structured arguments are in quotes and never begin a line."""
    match value:
        case str():
            yield f'"{value}"' if quoted else value
        case list():
            for item in value:
                yield from strings(item, quoted=quoted)
        case dict():
            for key, item in value.items():
                if key in _HOSTS and not quoted:
                    continue
                if quoted:
                    yield f'"{key}"'
                yield from strings(item, quoted=quoted or (key in _STRUCTURED and isinstance(item, dict)))
                if key == "arguments" and isinstance(item, str):
                    yield from strings(json.loads(item), quoted=True)
        case bytes():
            yield value.decode("utf-8", "replace")
        case _:
            pass


def _without_lines(text: str, ours: set[str]) -> str:
    text = _REF.sub(lambda found: "" if found[1] in ours else found[0], text)
    return _LATE.sub("", _MARK.sub("", text))


@lru_cache(50_000)
def _found(text: str) -> tuple[str, ...]:
    return tuple(found(text))


def _without_labels(text: str, pins: int) -> str:
    return text.replace("\n[pinned]\n", "\n", pins)
