"""Taking what is newly folded into the digest, at a cost that depends only on how much that is."""

from collections.abc import Iterable

from foveal.core.entry import ToolCall
from foveal.digest.names import names
from foveal.digest.pruning import pruned
from foveal.digest.reading import Call, Candidate, blocks, called, candidates
from foveal.digest.scoring import Scoring
from foveal.digest.state import Block, Digest, Line, Name, Touched
from foveal.ledger.events import Step

_MOST_SCORED = 1_500
"""Lines that are scored: scoring takes longer than everything else."""
_MOST_FILES = 200
_LEAST_LINE = 12
"""Shorter lines without a name are not worth their place."""


def update(digest: Digest, steps: Iterable[Step], *, score: Scoring = "learned", room: float = 1.0) -> Digest:
    """The digest of everything so far and these steps, which follow it. `room` times as much as usual is kept."""
    memory = _Memory(digest, room)
    for step in steps:
        memory.take(step)
    return pruned(memory.digest(), memory.now, score=score, room=room)


class _Memory:
    """The digest while it is being changed."""

    def __init__(self, digest: Digest, room: float) -> None:
        self._room = room
        self.blocks = list(digest.blocks)
        self.lines = {line.text.strip(): line for line in digest.lines}
        self.names = {name.text: name for name in digest.names}
        self.files = {file.path: file for file in digest.files}
        self.calls: dict[str, Call] = {}
        self.now = max((block.number for block in digest.blocks), default=0)
        self._once = dict(digest.once)
        """Names that were met in one message so far, and in which."""
        self._said: dict[str, list[str]] = {}
        """The names of each line, by its text without indentation."""
        for key, line in self.lines.items():
            self._said[key] = names(line.text)
            for name in self._said[key]:
                if name not in self.names:
                    self._once[name] = self.blocks[line.block].number

    def take(self, step: Step) -> None:
        self.now = step.number
        for part in step.message.parts:
            if isinstance(part, ToolCall):
                self._touch(part, step.number)
        met = dict[str, bool]()
        asked = step.message.role == "user"
        for block, text, first in blocks(step, self.calls):
            found = candidates(text, first)
            at = len(self.blocks)
            self.blocks.append(_with_lines(block, found))
            is_use = block.source in ("arguments", "replaced")
            for candidate in found:
                said = names(candidate.text)
                self._keep(candidate, at, said, is_use=is_use)
                for name in said:
                    met[name] = met.get(name, False) or is_use
        for name, is_use in met.items():
            self._meet(name, step.number, is_use=is_use, asked=asked)

    def _touch(self, part: ToolCall, number: int) -> None:
        call = called(part)
        self.calls[part.id] = call
        for path in dict.fromkeys((*call.changes, *[call.path] * bool(call.path))):
            old = self.files.pop(path, Touched(path, 0, 0))
            is_edit = path in call.changes
            edited = number if is_edit else old.edited
            self.files[path] = Touched(path, old.count + 1, number, old.edits + is_edit, edited)

    def _keep(self, candidate: Candidate, block: int, said: list[str], *, is_use: bool) -> None:
        key = candidate.text.strip()
        if len(key) < _LEAST_LINE and not said:
            return
        old = self.lines.pop(key, None)
        self._said[key] = said
        again = old.count + (old.block != block) if old else 1
        uses, used = (old.uses, old.used) if old else (0, -1)
        if is_use and used != self.now:
            uses, used = uses + 1, self.now
        text, at, number, before, after = candidate
        self.lines[key] = Line(text, block, at, number, again, uses, used, before, after)

    def _meet(self, name: str, number: int, *, is_use: bool, asked: bool) -> None:
        old = self.names.pop(name, None)
        if old is None:
            first = self._once.pop(name, -1)
            if first < 0 and not is_use and not asked:
                self._once[name] = number
                return
            old = Name(name, max(first, 0) if first >= 0 else number, number, int(first >= 0))
        uses, used = (old.uses + 1, number) if is_use else (old.uses, old.used)
        self.names[name] = Name(name, old.first, number, old.count + 1, uses, used, old.asked or asked)

    def digest(self) -> Digest:
        """Everything that is known, but for lines of which a first guess says that there are thousands of better ones."""
        keys = sorted(self.lines, key=self._guess)[-int(_MOST_SCORED * self._room) :]
        lines = sorted((self.lines[key] for key in keys), key=lambda line: (line.block, line.at))
        return Digest(
            tuple(self.blocks),
            tuple(lines),
            tuple(self.names.values()),
            tuple(self._once.items()),
            tuple(self.files.values())[-_MOST_FILES:],
        )

    def _guess(self, key: str) -> float:
        line = self.lines[key]
        worth = 2.0 + 4.0 * line.uses + min(len(self._said[key]), 4)
        age = self.now - max(self.blocks[line.block].number, line.used)
        return worth / (len(key) + 20) / (20 + age)


def _with_lines(block: Block, found: list[Candidate]) -> Block:
    lines = found[-1].at + 1 if found else 0
    return Block(block.ref, block.number, block.source, block.tool, block.title, block.path, lines)
