"""Which lines and names are kept for later folds: a few times more than are ever shown, and never more than so many bytes.

By a guess, not by the score: in replays it kept more of what was needed later, and it takes a tenth of the time. The score
tells what is needed next; what will be needed after that is told by little more than use and age.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from foveal.digest.state import Block, Digest, Line, Name, Touched

LINES_CHARS = 70_000
"""Of kept lines and of where they come from: about twice what is shown of them, so that later folds can choose again."""
NAMES_CHARS = 45_000
ONCE_CHARS = 30_000
MOST_FILES = 200

_FRAME_CHARS = 24
"""Numbers and brackets around a line or a name when it is written down."""
_ONCE_FRAME_CHARS = 8
_BLOCK_FRAME_CHARS = 50

_FRESH = 20
"""Messages within which age hardly matters."""

T = TypeVar("T")


class Met:
    """Everything that was met, while a digest is being made."""

    def __init__(self, digest: Digest) -> None:
        self.blocks = list(digest.blocks)
        self.lines = {line.text.strip(): line for line in digest.lines}
        self.names = {name.text: name for name in digest.names}
        self.once = dict(digest.once)
        """Names that were met in one message so far, and in which."""
        self.files = {file.path: file for file in digest.files}


def pruned(met: Met, said: Mapping[str, Sequence[str]], now: int) -> Digest:
    """The best of it. `said` are the names of each line, by its text without indentation."""
    keys = list(_lines(met, said, now))
    lines = [met.lines[key] for key in keys]
    blocks = sorted({line.block for line in lines})
    places = {block: place for place, block in enumerate(blocks)}
    told = {name for key in keys for name in said[key]}
    names = sorted(met.names.values(), key=lambda name: -_name_worth(name, now))
    once = sorted((one for one in met.once.items() if one[0] not in told), key=lambda one: -one[1])
    files: list[Touched] = list(met.files.values())
    return Digest(
        tuple(met.blocks[block] for block in blocks),
        tuple(replace(x, block=places[x.block]) for x in sorted(lines, key=lambda line: (line.block, line.at))),
        tuple(_within(names, NAMES_CHARS, lambda name: len(name.text) + _FRAME_CHARS)),
        tuple(_within(once, ONCE_CHARS, lambda one: len(one[0]) + _ONCE_FRAME_CHARS)),
        tuple(files[-MOST_FILES:]),
    )


def _lines(met: Met, said: Mapping[str, Sequence[str]], now: int) -> Iterator[str]:
    """The keys of the best lines, best first."""
    opened = set[int]()

    def size(key: str) -> int:
        line = met.lines[key]
        if line.block in opened:
            return len(line.text) + _FRAME_CHARS
        opened.add(line.block)
        block = met.blocks[line.block]
        return len(line.text) + len(block.title) + len(block.path) + _FRAME_CHARS + _BLOCK_FRAME_CHARS

    worth = {key: _line_worth(line, met.blocks[line.block], len(said[key]), now) for key, line in met.lines.items()}
    return _within(sorted(met.lines, key=lambda key: -worth[key]), LINES_CHARS, size)


def _line_worth(line: Line, block: Block, names: int, now: int) -> float:
    worth = 3 + 4 * line.uses + min(names, 2)
    return worth / (len(line.text) + _FRAME_CHARS) / (_FRESH + now - max(block.number, line.used))


def _name_worth(name: Name, now: int) -> float:
    return (0.2 + min(name.uses, 5) + 0.1 * min(name.count, 5)) / (_FRESH + now - name.last)


def _within(ranked: Iterable[T], chars: int, size: Callable[[T], int]) -> Iterator[T]:
    for one in ranked:
        chars -= size(one)
        if chars < 0:
            return
        yield one
