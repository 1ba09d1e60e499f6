"""Excerpts of a file's text: all of it, or the most telling part in a few tokens, with the reference of the rest."""

import csv
from collections.abc import Sequence
from io import StringIO

import msgspec

from foveal.context.files.archives import Listing
from foveal.context.files.kinds import separator
from foveal.context.files.read_options import ReadOptions, many
from foveal.text.display import replace_invisible
from foveal.text.guard.seals import plain
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import kind_of, trim
from foveal.text.shorten.cut import clip
from foveal.text.shorten.outline import outline
from foveal.text.shorten.reference import reference

_OUTLINE_TOKENS = 200
_ATTEMPTS = 24
_FIRST_ROWS = 10
_LINE_CHARACTERS = 400
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
    shape = _table_shape(text, separator(text) or ("\t" if media_type == "text/tab-separated-values" else ","))
    if not shape:
        return None
    lines = text[: 100 * _LINE_CHARACTERS].split("\n")[: _FIRST_ROWS + 1]
    first = [plain(clip(line.rstrip("\r"), _LINE_CHARACTERS)) for line in lines]
    outline = f"{shape}\n{first[0]}"
    if _is_small(text, reading):
        return FileBody(f"{shape}\n{text}", outline, is_whole=True)
    rest = f"[the first {many(len(first) - 1, 'row')}; all of it under ref {reading.ref}]"
    return FileBody(_fitted(first, reading, first=shape, last=rest), outline, is_whole=False)


def _table_shape(text: str, sign: str) -> str:
    """Return the line that tells the shape of a table with this separator; empty if its cells cannot be separated."""
    try:
        widths = [len(cells) for cells in csv.reader(StringIO(text, newline=""), delimiter=sign) if cells]
    except csv.Error:
        return ""
    if not widths:
        return ""
    ragged = "; some rows have other widths" if any(width != widths[0] for width in widths) else ""
    size = f"{many(len(widths) - 1, 'row')} × {many(widths[0], 'column')}"
    written = "tabs" if sign == "\t" else repr(sign)
    return f"[table: {size} below a header, separated by {written}{ragged}]"


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
    return Allowance(tokens, reading.count, reading.ref, guard=str)  # the view neutralises what the log keeps


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
