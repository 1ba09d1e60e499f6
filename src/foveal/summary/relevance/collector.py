"""Collection of newly folded messages into the relevance state, at a cost that depends only on their size."""

from collections.abc import Iterable
from itertools import chain

from msgspec.structs import replace

from foveal.summary.ledger.events import LedgerStep
from foveal.summary.relevance.size_bounds import Collected, prune
from foveal.summary.relevance.source_texts import CandidateLine, KnownCall, candidate_lines, known_call, source_texts
from foveal.summary.relevance.state import RelevanceState, SeenLine, SeenName, SourceText, TouchedFile
from foveal.text.names import line_names
from foveal.values.entry import ToolCall

_LEAST_LINE = 12
"""Shorter lines without a name are not worth their place."""


def update(state: RelevanceState, steps: Iterable[LedgerStep]) -> RelevanceState:
    """Return the state with these steps added. A step may be older than the messages folded before: requests stay longer."""
    memory = _Collector(state)
    for step in steps:
        memory.take(step)
    return prune(memory.met, memory.said, memory.newest) if memory.has_changed else state


class _Collector:
    """The relevance state while it is being changed."""

    def __init__(self, state: RelevanceState) -> None:
        self.met = Collected(state)
        self.now = 0
        self.newest = state.newest
        self.has_changed = False
        self.said: dict[str, tuple[str, ...]] = {}
        """The names of each line, by its text without indentation."""
        self._calls: dict[str, KnownCall] = {}
        for key, line in self.met.lines.items():
            self.said[key] = line_names(line.text)
            for name in self.said[key]:
                if name not in self.met.names:
                    self.met.once.setdefault(name, state.blocks[line.block].number)

    def take(self, step: LedgerStep) -> None:
        self.now, self.has_changed = step.number, True
        self.newest = max(self.newest, step.number)
        for part in step.message.parts:
            if isinstance(part, ToolCall):
                self._touch(part, step.number)
        met, used = dict[str, None](), set[str]()
        for block, text, first in source_texts(step, self._calls):
            is_use = block.source in ("arguments", "replaced")
            found = self._read(block, candidate_lines(text, first), is_use=is_use)
            met.update(found)
            used.update(found if is_use else ())
        asked = step.message.role == "user"
        for name in met:
            self._meet(name, is_use=name in used, asked=asked)

    def _touch(self, part: ToolCall, number: int) -> None:
        """Record the files that a call touches. The latest come last."""
        call = known_call(part)
        self._calls[part.id] = call
        files = self.met.files
        for path in dict.fromkeys((*call.changes, *[call.path] * bool(call.path))):
            old = files.pop(path, TouchedFile(path, 0, 0))
            is_edit = path in call.changes
            edited = max(number, old.edited) if is_edit else old.edited
            files[path] = TouchedFile(path, old.count + 1, max(number, old.last), old.edits + is_edit, edited)

    def _read(self, block: SourceText, found: list[CandidateLine], *, is_use: bool) -> dict[str, None]:
        """Add the lines of a block; return the names in them."""
        at = len(self.met.blocks)
        lines = found[-1].at + 1 if found else 0
        self.met.blocks.append(replace(block, lines=lines))
        met = list[tuple[str, ...]]()
        for candidate in found:
            said = line_names(candidate.text)
            met.append(said)
            key = candidate.text.strip()
            if said or len(key) >= _LEAST_LINE:
                self.said[key] = said
                self.met.lines[key] = self._line(candidate, at, self.met.lines.get(key), is_use=is_use)
        return dict.fromkeys(chain.from_iterable(met))

    def _line(self, found: CandidateLine, block: int, old: SeenLine | None, *, is_use: bool) -> SeenLine:
        again, uses, used = (old.count + (old.block != block), old.uses, old.used) if old else (1, 0, -1)
        if is_use and used != self.now:
            uses, used = uses + 1, max(used, self.now)
        return SeenLine(found.text, block, found.at, found.number, again, uses, used, found.before, found.after)

    def _meet(self, name: str, *, is_use: bool, asked: bool) -> None:
        known, once = self.met.names, self.met.once
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
