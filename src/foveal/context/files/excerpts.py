"""Excerpts of a file's text: all of it, or the most telling part in a few tokens, with the reference of the rest."""

from collections.abc import Sequence

import msgspec

from foveal.context.files.archives import Listing
from foveal.context.files.read_options import ReadOptions, many
from foveal.context.files.tables import table_of
from foveal.text.display import replace_invisible
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import kind_of, trim
from foveal.text.shorten.outline import outline
from foveal.text.shorten.reference import reference

_OUTLINE_TOKENS = 200
_ATTEMPTS = 24
_MOST_LINES = 1_000_000
"""Most lines that are weighed one by one; of more, only the beginning and the end are shown, since it would take a gigabyte."""


class FileBody(msgspec.Struct, frozen=True):
    """The text below the first line of a file."""

    shown: str
    outline: str
    is_whole: bool


def text_body(text: str, name: str, reading: ReadOptions) -> FileBody:
    if _is_small(text, reading):
        return FileBody(text, "", is_whole=True)
    hint = f"file {name[-200:]}"
    few = outline(text, hint, kind_of(text, hint), _room(reading, _OUTLINE_TOKENS)) or ""
    is_long = text.count("\n") > _MOST_LINES
    found = trim(text, hint, _room(reading, reading.shown_tokens), plain=is_long)
    shown = found[1] if found else few or reference("file", reading.count(text), reading.ref)
    return FileBody(shown, few, is_whole=False)


def table_body(text: str, media_type: str, reading: ReadOptions) -> FileBody | None:
    """Return a table by its shape and first rows; None if the text is no table."""
    table = table_of(text, media_type)
    if table is None:
        return None
    outline = f"{table.shape}\n{table.first[0]}"
    if _is_small(text, reading):
        return FileBody(f"{table.shape}\n{text}", outline, is_whole=True)
    rest = f"[the first {many(len(table.first) - 1, 'row')}; all of it under ref {reading.ref}]"
    return FileBody(_fitted(table.first, reading, first=table.shape, last=rest), outline, is_whole=False)


def archive_body(held: Listing, reading: ReadOptions) -> tuple[str, FileBody]:
    """Return the listing as a text, and its excerpt."""
    lines = [f"{member.size_bytes:>12,}  {replace_invisible(member.name)}" for member in held.members]
    shape = f"[archive: {many(held.count, 'member')}, {held.unpacked_bytes:,} bytes as it says; not unpacked]"
    if held.count > len(lines):
        lines.append(f"[… {many(held.count - len(lines), 'more member')}]")
    text = "\n".join((shape, *lines))
    if _is_small(text, reading):
        return text, FileBody(text, shape, is_whole=True)
    rest = f"[the first of {held.count:,} members; the listing under ref {reading.ref}]"
    return text, FileBody(_fitted(lines, reading, first=shape, last=rest), shape, is_whole=False)


def _is_small(text: str, reading: ReadOptions) -> bool:
    if len(text) > reading.whole_bytes:
        return False
    return len(text.encode("utf-8", "surrogatepass")) <= reading.whole_bytes


def _room(reading: ReadOptions, tokens: int) -> Allowance:
    return Allowance(tokens, reading.count, reading.ref)


def _fitted(lines: Sequence[str], reading: ReadOptions, *, first: str, last: str) -> str:
    """Return as many of the lines, from the first on, as there is room for."""
    most = len(lines)
    for _ in range(_ATTEMPTS):
        shown = "\n".join((first, *lines[:most], last))
        size = reading.count(shown)
        if size <= reading.shown_tokens or not most:
            return shown
        most = min(most - 1, most * reading.shown_tokens // size)
    return "\n".join((first, last))
