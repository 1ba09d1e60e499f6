"""The chosen lines as a text to read: by where they come from, in order, with marks where something is left out."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from foveal.digest.names import PIECE_CHARS
from foveal.digest.state import Block, Digest, Line

INDEX = "Also named: "


def header(block: Block) -> str:
    return f"{block.title} (ref {block.ref}):"


def render(digest: Digest, chosen: Iterable[int], index: Sequence[str]) -> str:
    lines = [digest.lines[i] for i in chosen]
    out = list[str]()
    for place, group in groupby(lines, key=lambda line: line.block):
        block = digest.blocks[place]
        out.append(header(block))
        out.extend(_rows(list(group)))
    if index:
        out.append(INDEX + " ".join(index))
    return "\n".join(out)


def _rows(lines: list[Line]) -> Iterator[str]:
    """The lines of one block without the indentation that all of them share. A number or a mark stands where a run begins."""
    shared = min(len(line.text) - len(line.text.lstrip()) for line in lines)
    before = -1
    for line in lines:
        text = line.text[shared:]
        if len(line.text) >= PIECE_CHARS // 2 and not line.text.rstrip() == line.text:
            text += "…"
        is_next = line.at in (before, before + 1)
        before = line.at
        yield text if is_next else f"{line.number}: {text}" if line.number else f"… {text}" if before else text
