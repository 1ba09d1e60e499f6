"""A table by its shape, its header and its first rows."""

import csv
from io import StringIO

import msgspec

from foveal.context.files.kinds import separator
from foveal.context.files.read_options import many
from foveal.text.shorten.cut import clip

FIRST_ROWS = 10
_LINE_CHARACTERS = 400


class SheetTable(msgspec.Struct, frozen=True):
    rows: int
    """Rows below the header."""
    columns: int
    separator: str
    is_ragged: bool
    """Whether some rows have more or fewer cells than the header."""
    first: tuple[str, ...]
    """The header and the first rows, as they are written."""

    @property
    def shape(self) -> str:
        sign = {"\t": "tabs"}.get(self.separator, repr(self.separator))
        ragged = "; some rows have other widths" if self.is_ragged else ""
        return f"[table: {many(self.rows, 'row')} × {many(self.columns, 'column')} below a header, separated by {sign}{ragged}]"


def table_of(text: str, media_type: str) -> SheetTable | None:
    """Return the table of a text, or None if its cells cannot be separated."""
    sign = separator(text) or ("\t" if media_type == "text/tab-separated-values" else ",")
    rows = columns = 0
    is_ragged = False
    try:
        for cells in csv.reader(StringIO(text, newline=""), delimiter=sign):
            if not rows:
                columns = len(cells)
            is_ragged = is_ragged or (bool(cells) and len(cells) != columns)
            rows += bool(cells)
    except csv.Error:
        return None
    if not rows:
        return None
    lines = text[: 100 * _LINE_CHARACTERS].split("\n")[: FIRST_ROWS + 1]
    first = tuple(clip(line.rstrip("\r"), _LINE_CHARACTERS) for line in lines)
    return SheetTable(rows - 1, columns, sign, is_ragged, first)
