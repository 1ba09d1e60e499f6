"""Bounds of the relevance state: lines and names kept for later folds, a few times more than are ever shown.

They are chosen by a guess, not by the score: in replays the guess kept more of the texts that were needed later, and it
takes a tenth of the time. The score predicts the next need; later needs depend on little more than use and age.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from operator import itemgetter
from typing import TypeVar

from msgspec.structs import replace

from foveal.summary.relevance.state import RelevanceState, SeenLine, SeenName, TouchedFile

LINES_CHARS = 120_000
"""Characters of kept lines and their sources: several times those that are shown, so that later folds can choose again. In
replays at 32k, far grounding was 0.015 lower with 70 000, and no higher with 200 000."""
NAMES_CHARS = 45_000
ONCE_CHARS = 10_000
MOST_FILES = 200

_FRAME_CHARS = 24
"""Numbers and brackets around a line or a name in its encoded form."""
_ONCE_FRAME_CHARS = 8
_BLOCK_FRAME_CHARS = 50

_FRESH = 20
"""Messages within which age hardly matters."""

T = TypeVar("T")


class Collected:
    """Everything that was met, while a relevance state is being changed."""

    def __init__(self, state: RelevanceState) -> None:
        self.blocks = list(state.blocks)
        self.lines = {line.text.strip(): line for line in state.lines}
        self.names = {name.text: name for name in state.names}
        self.once = dict(state.once)
        """Names that were met in one message only, with that message."""
        self.files = {file.path: file for file in state.files}


def prune(met: Collected, said: Mapping[str, Sequence[str]], now: int) -> RelevanceState:
    """Return the best lines, names and files within the bounds. `said` are the names of each line, by its text without
    indentation."""
    keys = _best_lines(met, said, now)
    lines = [met.lines[key] for key in keys]
    blocks = sorted({line.block for line in lines})
    places = {block: place for place, block in enumerate(blocks)}
    told = {name for key in keys for name in said[key]}
    names = sorted(met.names.values(), key=lambda name: _name_worth(name, now), reverse=True)
    once = sorted(((name, at) for name, at in met.once.items() if name not in told), key=itemgetter(1), reverse=True)
    files: list[TouchedFile] = list(met.files.values())
    return RelevanceState(
        tuple(met.blocks[block] for block in blocks),
        tuple(replace(x, block=places[x.block]) for x in sorted(lines, key=lambda line: (line.block, line.at))),
        tuple(_within(names, NAMES_CHARS, (len(name.text) + _FRAME_CHARS for name in names))),
        tuple(_within(once, ONCE_CHARS, (len(name) + _ONCE_FRAME_CHARS for name, _ in once))),
        tuple(files[-MOST_FILES:]),
    )


def _best_lines(met: Collected, said: Mapping[str, Sequence[str]], now: int) -> Sequence[str]:
    """Return the keys of the best lines, best first."""
    numbers = [block.number for block in met.blocks]
    worth = {key: _line_worth(line, numbers[line.block], len(said[key]), now) for key, line in met.lines.items()}
    ranked = sorted(worth, key=worth.__getitem__, reverse=True)
    return _within(ranked, LINES_CHARS, _sizes(met, ranked))


def _sizes(met: Collected, ranked: Iterable[str]) -> Iterator[int]:
    """Yield the size of each line. The first line of a block includes the size of the block's header."""
    opened = set[int]()
    for key in ranked:
        line = met.lines[key]
        size = len(line.text) + _FRAME_CHARS
        if line.block not in opened:
            opened.add(line.block)
            block = met.blocks[line.block]
            size += len(block.title) + len(block.path) + _BLOCK_FRAME_CHARS
        yield size


def _line_worth(line: SeenLine, seen: int, names: int, now: int) -> float:
    # Here and below without `min` and `max`: there are thousands, and a call takes longer than all the rest.
    worth = 3 + 4 * line.uses + (names if names < 2 else 2)
    last = line.used if line.used > seen else seen
    return worth / (len(line.text) + _FRAME_CHARS) / (_FRESH + now - last)


def _name_worth(name: SeenName, now: int) -> float:
    uses, count = name.uses, name.count
    return (0.2 + (uses if uses < 5 else 5) + 0.1 * (count if count < 5 else 5)) / (_FRESH + now - name.last)


def _within(ranked: Sequence[T], chars: int, sizes: Iterable[int]) -> Sequence[T]:
    """Return as many as fit, from the first on."""
    return ranked[: sum(1 for _ in takewhile(chars.__ge__, accumulate(sizes)))]
