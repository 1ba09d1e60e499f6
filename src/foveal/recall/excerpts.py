"""Excerpts of an original: some lines, some characters, or the lines that match a pattern.

The whole original is read the first time, and nothing of it is kept: an artifact is known to be sound only at its end, and the
total is part of the answer. Of a large artifact, later fetches read only the blocks of their excerpt. No fetch returns more
than `most` characters, and `next` is the fetch that goes on where this one ended; following it to its end gives the original
again, to the last character.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from foveal.recall.matches import MatchQuery, matching_lines
from foveal.recall.offsets import character_range, line_range
from foveal.recall.originals import blocks, locate, part_blocks, range_blocks
from foveal.recall.windows import TextWindow, character_window, line_window
from foveal.stores.port import Store
from foveal.values.errors import BadInput

MOST_CHARACTERS = 20_000
"""Characters of one fetch: about five thousand tokens, a tenth of a small model's window."""
MOST_CONTEXT = 1_000
"""Most lines around a match: they are held while the text streams by."""


class Fetch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request for an excerpt. A line ends with "\\n" and nothing else; `offset` counts the lines (or characters) before it.

    With a pattern, the lines after `offset` that match are given with `context` lines around each, `limit` lines in all.
    """

    ref: str
    offset: int = 0
    limit: int = 200
    unit: Literal["lines", "characters"] = "lines"
    pattern: str | None = None
    context: int = 2


class Fetched(msgspec.Struct, frozen=True):
    """An excerpt, its place in the original, and the request for the next one."""

    text: str
    """Verbatim; for a pattern, numbered lines as `grep -n` shows them."""
    unit: str
    total: int
    """Lines or characters of the whole original."""
    first: int
    last: int
    """The numbers of the first and last line or character given, counted from 1; the last is one less if there is none."""
    next: Fetch | None
    """The request for the text after this. It counts in characters if this excerpt ended within a line."""
    matches: int | None = None
    """Lines of the whole original that match the pattern, if one was asked for."""

    @property
    def more(self) -> bool:
        """Whether the original goes on after this excerpt."""
        return self.next is not None


def fetch(store: Store, session: str, wanted: Fetch, *, most: int = MOST_CHARACTERS) -> Fetched:
    """Return the excerpt that is asked for. `NotFound` for any reference that is not one of this session."""
    _check(wanted, most)
    if wanted.pattern is not None:
        return _matching(wanted, wanted.pattern, blocks(store, session, wanted.ref), most)
    window = _window(store, session, wanted, most)
    offset = wanted.offset
    _check_offset(wanted, window.total)
    last = offset + window.count
    following = msgspec.structs.replace(wanted, offset=last) if last < window.total else None
    if window.cut_at is not None:
        following = Fetch(wanted.ref, window.cut_at, most, "characters")
    return Fetched(window.text, wanted.unit, window.total, offset + 1, last, following)


def _window(store: Store, session: str, wanted: Fetch, most: int) -> TextWindow:
    is_lines, limit = wanted.unit == "lines", min(wanted.limit, most)
    source = range_blocks(store, session, wanted.ref)
    if source is None:
        part, place, *_ = locate(store, session, wanted.ref)
        artifacts = store.artifacts_for(session)
        quick = (
            line_range(artifacts, part, wanted.offset, limit=wanted.limit, most=most)
            if is_lines
            else character_range(artifacts, part, wanted.offset, limit=limit)
        )
        if quick is not None:
            return quick
        source = part_blocks(artifacts, part, place)
    if is_lines:
        return line_window(source, wanted.offset, wanted.limit, most)
    return character_window(source, wanted.offset, limit)


def _matching(wanted: Fetch, pattern: str, source: Iterator[str], most: int) -> Fetched:
    found = matching_lines(source, pattern, MatchQuery(wanted.offset, wanted.limit, wanted.context, most))
    _check_offset(wanted, found.total)
    following = msgspec.structs.replace(wanted, offset=found.last) if found.more else None
    first, last = (found.first, found.last) if found.text else (wanted.offset + 1, wanted.offset)
    return Fetched(found.text, "lines", found.total, first, last, following, found.matches)


def _check(wanted: Fetch, most: int) -> None:
    if wanted.unit not in ("lines", "characters"):
        raise BadInput(f"the unit {wanted.unit!r} is not known; it is lines or characters")
    numbers = (
        ("limit", wanted.limit, 1),
        ("offset", wanted.offset, 0),
        ("context", wanted.context, 0),
        ("most", most, 1),
    )
    for name, value, least in numbers:
        if type(value) is not int or value < least:
            raise BadInput(f"the {name} {value!r} cannot be used; it is a whole number, at least {least}")
    if wanted.context > MOST_CONTEXT:
        raise BadInput(f"the context of {wanted.context:,} lines is too large; {MOST_CONTEXT:,} is the most")
    if wanted.pattern is not None and wanted.unit != "lines":
        raise BadInput("a pattern is matched line by line: ask for it in lines, not in characters")


def _check_offset(wanted: Fetch, total: int) -> None:
    if wanted.offset and wanted.offset >= total:
        raise BadInput(
            f"the offset {wanted.offset:,} is beyond the end: {wanted.ref[:120]} has {total:,} {wanted.unit}"
        )
