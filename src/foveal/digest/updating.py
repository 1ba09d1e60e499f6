"""Taking what is newly folded into the digest, at a cost that depends only on how much that is."""

from collections.abc import Iterable

from foveal.core.entry import ToolCall
from foveal.digest.names import names
from foveal.digest.pruning import Met, pruned
from foveal.digest.reading import Call, Candidate, blocks, called, candidates
from foveal.digest.state import Block, Digest, Line, Name, Touched
from foveal.ledger.events import Step

_LEAST_LINE = 12
"""Shorter lines without a name are not worth their place."""


def update(digest: Digest, steps: Iterable[Step]) -> Digest:
    """The digest of everything so far and these steps. A step may be older than what was folded before: requests stay longer."""
    memory = _Memory(digest)
    for step in steps:
        memory.take(step)
    return pruned(memory.met, memory.said, memory.newest) if memory.has_changed else digest


class _Memory:
    """The digest while it is being changed."""

    def __init__(self, digest: Digest) -> None:
        self.met = Met(digest)
        self.now = 0
        self.newest = digest.newest
        self.has_changed = False
        self.said: dict[str, list[str]] = {}
        """The names of each line, by its text without indentation."""
        self._calls: dict[str, Call] = {}
        for key, line in self.met.lines.items():
            self.said[key] = names(line.text)
            for name in self.said[key]:
                if name not in self.met.names:
                    self.met.once.setdefault(name, digest.blocks[line.block].number)

    def take(self, step: Step) -> None:
        self.now, self.has_changed = step.number, True
        self.newest = max(self.newest, step.number)
        for part in step.message.parts:
            if isinstance(part, ToolCall):
                self._touch(part, step.number)
        found = dict[str, bool]()
        for block, text, first in blocks(step, self._calls):
            is_use = block.source in ("arguments", "replaced")
            for name in self._read(block, candidates(text, first), is_use=is_use):
                found[name] = found.get(name, False) or is_use
        asked = step.message.role == "user"
        for name, is_use in found.items():
            self._meet(name, is_use=is_use, asked=asked)

    def _touch(self, part: ToolCall, number: int) -> None:
        """Note which files a call goes to. The latest come last."""
        call = called(part)
        self._calls[part.id] = call
        files = self.met.files
        for path in dict.fromkeys((*call.changes, *[call.path] * bool(call.path))):
            old = files.pop(path, Touched(path, 0, 0))
            is_edit = path in call.changes
            edited = max(number, old.edited) if is_edit else old.edited
            files[path] = Touched(path, old.count + 1, max(number, old.last), old.edits + is_edit, edited)

    def _read(self, block: Block, found: list[Candidate], *, is_use: bool) -> Iterable[str]:
        """Keep the lines of a block; the names that it holds."""
        at = len(self.met.blocks)
        lines = found[-1].at + 1 if found else 0
        self.met.blocks.append(Block(block.ref, block.number, block.source, block.tool, block.title, block.path, lines))
        met = dict[str, None]()
        for candidate in found:
            said = names(candidate.text)
            self._keep(candidate, at, said, is_use=is_use)
            met.update(dict.fromkeys(said))
        return met

    def _keep(self, candidate: Candidate, block: int, said: list[str], *, is_use: bool) -> None:
        text, at, number, before, after = candidate
        key = text.strip()
        if len(key) < _LEAST_LINE and not said:
            return
        old = self.met.lines.get(key)
        again, uses, used = (old.count + (old.block != block), old.uses, old.used) if old else (1, 0, -1)
        if is_use and used != self.now:
            uses, used = uses + 1, max(used, self.now)
        self.met.lines[key] = Line(text, block, at, number, again, uses, used, before, after)
        self.said[key] = said

    def _meet(self, name: str, *, is_use: bool, asked: bool) -> None:
        known, once = self.met.names, self.met.once
        old = known.get(name)
        if old is None:
            first = once.pop(name, None)
            if first is None and not is_use and not asked:
                once[name] = self.now
                return
            old = Name(name, self.now, self.now, 0) if first is None else Name(name, first, first, 1)
        uses, used = (old.uses + 1, max(old.used, self.now)) if is_use else (old.uses, old.used)
        first, last = min(old.first, self.now), max(old.last, self.now)
        known[name] = Name(name, first, last, old.count + 1, uses, used, old.asked or asked)
