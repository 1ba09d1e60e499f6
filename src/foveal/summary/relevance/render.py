"""The chosen lines as text: by source, in order, with marks where lines are left out."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from foveal.summary.relevance.state import RelevanceState, SeenLine, SourceText

INDEX = "Also named: "

QUOTED = "| "
"""Prefix of a line that would read as part of the summary itself."""

_STRUCTURE = re.compile(rf"\s*(?:[#\[<]|- “|{INDEX})|.*\(ref [^()\s]{{1,64}}\):?\Z")
"""Headings, notes, tags, quotes of the user, the index of names and the headers of blocks."""


def block_header(block: SourceText) -> str:
    return f"{block.title} (ref {block.ref}):"


def quote_line(row: str) -> str:
    """Return a row of others for use in a summary, such that it cannot pose as a heading or a header of ours.

    A line break other than `\\n`, such as a carriage return, would begin another line, and becomes a space.
    """
    row = " ".join(row.splitlines())
    return QUOTED + row if _STRUCTURE.match(row) else row


def is_in_title(line: SeenLine, block: SourceText) -> bool:
    """Return whether the header shows the whole line: a path, a short command."""
    return line.text.strip() in block.title


def render(state: RelevanceState, chosen: Iterable[int], index: Sequence[str]) -> str:
    """Return the lines under the headers of their sources; then, on one line, names whose lines are not shown."""
    groups = list[tuple[SourceText, list[str]]]()
    for place, lines in groupby((state.lines[i] for i in chosen), key=lambda line: line.block):
        block = state.blocks[place]
        groups.append((block, list(_rows([line for line in lines if not is_in_title(line, block)]))))
    told = {block.title for block, rows in groups if rows}
    text = list[str]()
    for block, rows in groups:
        if rows:
            text += [block_header(block), *rows]
        elif block.title not in told:
            text.append(block_header(block).removesuffix(":"))
            told.add(block.title)
    return "\n".join((*text, *[INDEX + " ".join(index)] * bool(index)))


def _rows(lines: list[SeenLine]) -> Iterator[str]:
    """Yield the lines of one block without their common indentation. A run of neighbours begins with the number of its
    first line, or a mark."""
    shared = min((len(line.text) - len(line.text.lstrip()) for line in lines), default=0)
    expected = -1 if lines and lines[0].number else 0
    for line in lines:
        text = f"{'…' * line.before}{line.text[shared:]}{'…' * line.after}"
        if expected >= 0 and line.at in (expected, expected - 1):
            yield quote_line(text)
        else:
            yield quote_line(f"{line.number}: {text}" if line.number else f"… {text}")
        expected = line.at + 1
