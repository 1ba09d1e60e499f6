"""The atoms of a view: where each entry is, how large everything is, and what changed since it was last rendered."""

from collections.abc import Iterator

from foveal.project.projection import Projection
from foveal.values.entry import Opaque, RedactedThinking, Thinking, ToolCall
from foveal.values.shown import NOTHING, Atom, ResultPlace, total


class Atoms:
    """A list of atoms that knows its own places and sizes."""

    def __init__(self, lens: Projection) -> None:
        self.lens = lens
        self.atoms: list[Atom] = []
        self.size = NOTHING
        self.is_reduced = False
        """Whether anything is shown below full, so that a way back is worth offering."""
        self.changed_from = 0
        """The first atom that changed since somebody last set this to the number of atoms."""
        self.carried = ""
        """The state of the newest summary."""
        self.said: tuple[str, str] = "", ""
        """The prose of the newest summary, and who wrote it. The log has it, where it has no state."""
        self.owed: tuple[tuple[int, ...], ...] = ()
        """Places of messages that later summaries cover and the state does not know, fold by fold."""
        self.first_user: str | None = None
        self.last_user: str | None = None
        self._place: dict[str, int] = {}
        self._wire_ids: set[str] = set()
        self._opaque: set[str] = set()
        self._open: int | None = None
        """The reply whose calls may still be answered."""

    def place(self, entry_id: str) -> int | None:
        """Which atom shows this entry; for a gap, only its first and last entry are known."""
        return self._place.get(entry_id)

    @property
    def settled(self) -> int:
        """How many leading atoms no further message can change."""
        return len(self.atoms) - 1 if self._open is None else min(self._open, len(self.atoms) - 1)

    def loop_start(self) -> int:
        """Where the running tool loop began: at the first call since the last reply without one, else at that reply.

        A request in between does not end a loop: it goes to the provider together with the results before it.
        """
        replies = (i for i, atom in enumerate(self.atoms) if atom.kind == "assistant" and not atom.items[0].is_silent)
        last = max(replies, default=0)
        return next((i for i in range(last, len(self.atoms)) if self.atoms[i].kind == "tools"), last)

    def loop_opener(self) -> int | None:
        """The reply that opened the running tool loop, if it holds thinking: providers want it back while the loop runs."""
        start = self.loop_start()
        shown = [s for item in self.atoms[start].items for s in item.shown] if start < len(self.atoms) else []
        return start if any(isinstance(s.part, Thinking | RedactedThinking) for s in shown) else None

    def _push(self, atom: Atom) -> None:
        for entry in _named(atom):
            self._place[entry] = len(self.atoms)
        self.atoms.append(atom)
        self.size += atom.size

    def _replace(self, index: int, atom: Atom) -> None:
        self.size += atom.size - self.atoms[index].size
        self.atoms[index] = atom
        self.changed_from = min(self.changed_from, index)

    def _recount(self) -> None:
        """After atoms have moved: where everything is, how large it is, and which ids are taken."""
        self._place = {entry: i for i, atom in enumerate(self.atoms) for entry in _named(atom)}
        self._wire_ids = {wire_id for atom in self.atoms if atom.kind == "tools" for wire_id in atom.wire_ids}
        shown = (s.part for atom in self.atoms for item in atom.items for s in item.shown)
        self._opaque = {part.json for part in shown if isinstance(part, Opaque)}
        self.size = total(atom.size for atom in self.atoms)
        if self._open is not None:
            replies = [i for i, atom in enumerate(self.atoms) if atom.kind in ("tools", "hidden", "assistant")]
            self._open = replies[-1] if replies and self.atoms[replies[-1]].wire_ids else None


def calls_of(atom: Atom) -> Iterator[ToolCall]:
    """The calls of an atom in order, with the ids that they were recorded with."""
    for item in atom.items:
        if item.role == "assistant":
            for shown in item.shown:
                if isinstance(shown.part, ToolCall):
                    yield shown.part


def answered(atom: Atom) -> Iterator[tuple[ToolCall, ResultPlace]]:
    """The calls of an atom that have a result, and where it is."""
    for call, answer in zip(calls_of(atom), atom.answers, strict=False):
        if answer is not None:
            yield call, answer


def _named(atom: Atom) -> Iterator[str]:
    if atom.gap:
        yield from (atom.gap.first, atom.gap.last)
    for item in atom.items:
        yield item.id
