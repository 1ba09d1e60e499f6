"""Collection of newly folded messages into the relevance state, at a cost that depends only on their size.

The lines and names that are kept for later folds are a few times more than are ever shown. They are chosen by a guess, not by
the score: in replays the guess kept more of the texts that were needed later, and it takes a tenth of the time. The score
predicts the next need; later needs depend on little more than use and age.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, takewhile
from operator import itemgetter
from typing import TypeVar

from msgspec.structs import replace

from foveal.summary.ledger.events import LedgerStep
from foveal.summary.relevance.source_texts import CandidateLine, KnownCall, candidate_lines, known_call, source_texts
from foveal.summary.relevance.state import RelevanceState, SeenLine, SeenName, SourceText, TouchedFile
from foveal.text.names import line_names
from foveal.values.entry import ToolCall

LINES_CHARS = 120_000
"""Least characters of kept lines and their sources: several times those that are shown, so that later folds can choose again. In
replays at 32k, far grounding was 0.015 lower with 70 000, and no higher with 200 000."""
ROOM_CHARS = 3.75
"""Characters of kept lines per token of the limit, where that is more. In replays of sessions above 100k tokens, half of them
cost 0.03 of far grounding at 64k and 0.02 at 128k; twice as many brought nothing."""
NAMES_CHARS = 45_000
ONCE_CHARS = 10_000
MOST_FILES = 200

_FRAME_CHARS = 24
"""Numbers and brackets around a line or a name in its encoded form."""
_ONCE_FRAME_CHARS = 8
_BLOCK_FRAME_CHARS = 50

_FRESH = 20
"""Messages within which age hardly matters."""

_LEAST_LINE = 12
"""Shorter lines without a name are not worth their place."""

T = TypeVar("T")


def room_for(limit: int) -> int:
    """Return the room of a state for prompts of so many tokens; 0 for the least."""
    room = int(limit * ROOM_CHARS)
    return room if room > LINES_CHARS else 0


def update(state: RelevanceState, steps: Iterable[LedgerStep], room: int = 0) -> RelevanceState:
    """Return the state with these steps added, within its room.

    A step may be older than the messages folded before: requests stay longer.
    """
    memory = _Collector(state)
    for step in steps:
        memory.take(step)
    return memory.pruned(max(1.0, room / LINES_CHARS)) if memory.has_changed else state


class _Collector:
    """The relevance state while it is being changed."""

    def __init__(self, state: RelevanceState) -> None:
        self.blocks = list(state.blocks)
        self.lines = {line.text.strip(): line for line in state.lines}
        self.names = {name.text: name for name in state.names}
        self.once = dict(state.once)
        """Names that were met in one message only, with that message."""
        self.files = {file.path: file for file in state.files}
        self.now = 0
        self.newest = state.newest
        self.has_changed = False
        self.said: dict[str, tuple[str, ...]] = {}
        """The names of each line, by its text without indentation."""
        self._calls: dict[str, KnownCall] = {}
        for key, line in self.lines.items():
            self.said[key] = line_names(line.text)
            for name in self.said[key]:
                if name not in self.names:
                    self.once.setdefault(name, state.blocks[line.block].number)

    def take(self, step: LedgerStep) -> None:
        self.now, self.has_changed = step.number, True
        self.newest = max(self.newest, step.number)
        for part in step.message.parts:
            if isinstance(part, ToolCall):
                self._touch(part, step.number)
        met, used, asked = dict[str, None](), set[str](), set[str]()
        for block, text, first in source_texts(step, self._calls):
            is_use = block.source in ("arguments", "replaced")
            found = self._read(block, candidate_lines(text, first), is_use=is_use)
            met.update(found)
            used.update(found if is_use else ())
            asked.update(found if block.source == "user" else ())
        for name in met:
            self._meet(name, is_use=name in used, asked=name in asked)

    def _touch(self, part: ToolCall, number: int) -> None:
        """Record the files that a call touches. The latest come last."""
        call = known_call(part)
        self._calls[part.id] = call
        for path in dict.fromkeys((*call.changes, *[call.path] * bool(call.path))):
            old = self.files.pop(path, TouchedFile(path, 0, 0))
            is_edit = path in call.changes
            edited = max(number, old.edited) if is_edit else old.edited
            self.files[path] = TouchedFile(path, old.count + 1, max(number, old.last), old.edits + is_edit, edited)

    def _read(self, block: SourceText, found: list[CandidateLine], *, is_use: bool) -> dict[str, None]:
        """Add the lines of a block; return the names in them."""
        at = len(self.blocks)
        lines = found[-1].at + 1 if found else 0
        self.blocks.append(replace(block, lines=lines))
        met = list[tuple[str, ...]]()
        for candidate in found:
            said = line_names(candidate.text)
            met.append(said)
            key = candidate.text.strip()
            if said or len(key) >= _LEAST_LINE:
                self.said[key] = said
                self.lines[key] = self._line(candidate, at, self.lines.get(key), is_use=is_use)
        return dict.fromkeys(chain.from_iterable(met))

    def _line(self, found: CandidateLine, block: int, old: SeenLine | None, *, is_use: bool) -> SeenLine:
        again, uses, used = (old.count + (old.block != block), old.uses, old.used) if old else (1, 0, -1)
        if is_use and used != self.now:
            uses, used = uses + 1, max(used, self.now)
        return SeenLine(found.text, block, found.at, found.number, again, uses, used, found.before, found.after)

    def _meet(self, name: str, *, is_use: bool, asked: bool) -> None:
        known, once = self.names, self.once
        old = known.get(name)
        if old is None:
            first = once.pop(name, None)
            if first is None and not is_use and not asked:
                once[name] = self.now
                return
            old = SeenName(name, self.now, self.now, 0) if first is None else SeenName(name, first, first, 1)
        uses, used = (old.uses + 1, max(old.used, self.now)) if is_use else (old.uses, old.used)
        first, last = min(old.first, self.now), max(old.last, self.now)
        known[name] = SeenName(name, first, last, old.count + 1, uses, used, old.asked or asked)

    def pruned(self, scale: float) -> RelevanceState:
        """Return the best lines, names and files within `scale` times the least bounds."""
        now, keys = self.newest, self._best_lines(int(LINES_CHARS * scale))
        most_names, most_once, most_files = (int(most * scale) for most in (NAMES_CHARS, ONCE_CHARS, MOST_FILES))
        lines = [self.lines[key] for key in keys]
        blocks = sorted({line.block for line in lines})
        places = {block: place for place, block in enumerate(blocks)}
        told = {name for key in keys for name in self.said[key]}
        names = sorted(self.names.values(), key=lambda name: _name_worth(name, now), reverse=True)
        once = sorted(
            ((name, at) for name, at in self.once.items() if name not in told), key=itemgetter(1), reverse=True
        )
        return RelevanceState(
            tuple(self.blocks[block] for block in blocks),
            tuple(replace(x, block=places[x.block]) for x in sorted(lines, key=lambda line: (line.block, line.at))),
            tuple(_within(names, most_names, (len(name.text) + _FRAME_CHARS for name in names))),
            tuple(_within(once, most_once, (len(name) + _ONCE_FRAME_CHARS for name, _ in once))),
            tuple(self.files.values())[-most_files:],
        )

    def _best_lines(self, chars: int) -> Sequence[str]:
        """Return the keys of the best lines within so many characters, best first."""
        worth = {
            key: _line_worth(line, self.blocks[line.block].number, len(self.said[key]), self.newest)
            for key, line in self.lines.items()
        }
        ranked = sorted(worth, key=worth.__getitem__, reverse=True)
        return _within(ranked, chars, self._sizes(ranked))

    def _sizes(self, ranked: Iterable[str]) -> Iterator[int]:
        """Yield the size of each line. The first line of a block includes the size of the block's header."""
        opened = set[int]()
        for key in ranked:
            line = self.lines[key]
            size = len(line.text) + _FRAME_CHARS
            if line.block not in opened:
                opened.add(line.block)
                block = self.blocks[line.block]
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
