"""One long session, compacted again and again, and what is left of what was known at the first time."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from foveal.session.session import Session
from foveal.summary.ledger.extraction import update
from foveal.summary.ledger.items import Ledger, Todo
from foveal.summary.state import Summary, decode_summary, ledger_step
from foveal.text.names import names_in_lines
from foveal.values.entry import Message, Pin, Text, ToolCall
from foveal.values.errors import OverBudget, Unrepresentable
from foveal.values.prompt import Prompt

LATE = 0.8
"""From here on, what is used counts."""


class Chain(NamedTuple):
    """What came of a chain of compactions."""

    folds: int
    calls: int
    refused: int
    most_tokens: int
    most_summary: int
    most_state: int
    """Characters of what is carried from fold to fold."""
    lost: tuple[str, ...]
    """Pinned passages and rules of the user that some prompt did not show, and where."""
    todos_differ: int
    """Folds after which the ledger's todos were not the newest list of what is covered."""
    reworded: int
    """Quotes in the ledger that nobody said so."""
    known: int
    """Names in the state of the first compaction that the model uses in the last part of the session."""
    kept: int
    """Of those: how many are in the state when that part begins."""
    shown: int
    """Of those: how many the last prompt before that part showed."""
    gone: tuple[str, ...]


def run(session: Session, messages: Sequence[Message], *, rules: Sequence[str] = (), most_folds: int = 10_000) -> Chain:
    """Play the messages; ask for the prompt before every reply; look at every prompt."""
    late = int(len(messages) * LATE)
    watch = _Watch(session, tuple(rules))
    for number, message in enumerate(messages):
        if number == late:
            watch.mark()
        if message.role == "assistant":
            watch.ask()
        watch.append(message)
        if session.view.facts.folds >= most_folds and number < late:
            late = number + 1
            watch.mark()
            break
    return watch.chain(messages[late:])


class _Watch:
    def __init__(self, session: Session, rules: tuple[str, ...]) -> None:
        self.session, self.rules = session, rules
        self.pinned: list[str] = []
        self.spoken = ""
        self.calls = self.refused = self.tokens = self.summary = self.state = self.differ = self.reworded = 0
        self.lost: list[str] = []
        self.first: frozenset[str] | None = None
        self.at_mark: tuple[frozenset[str], str] = frozenset(), ""
        self._all = Ledger()
        self._taken: dict[int, Message] = {}
        self._last: Prompt | None = None

    def append(self, message: Message) -> None:
        entry = self.session.append(message)
        self._taken[self.session.view.facts.seq] = message
        if message.role not in ("user", "system"):
            return
        text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
        self.spoken += f"{text}\0"
        if message.role == "user" and len(self.pinned) < 2 and len(text) > 40 and "\n" not in text[:40]:
            self.pinned.append(text[:40])
            self.session.append(Pin(entry.id, text=text[:40]))

    def ask(self) -> None:
        self.calls += 1
        try:
            prompt = self.session.prompt()
        except (OverBudget, Unrepresentable):
            self.refused += 1
            return
        self._last = prompt
        self.tokens = max(self.tokens, prompt.tokens)
        text = "\n".join(_texts(prompt))
        for passage in (*self.pinned, *(rule for rule in self.rules if rule in self.spoken)):
            if passage not in text:
                self.lost.append(f"call {self.calls}: {passage[:30]!r}")
        if prompt.fold:
            self._folded(prompt)

    def _folded(self, prompt: Prompt) -> None:
        gaps = [atom for atom in prompt.atoms if atom.gap]
        self.summary = max(self.summary, sum(atom.size.tokens for atom in gaps))
        self.state = max(self.state, len(self.session.view.facts.summary.state))
        summary = decode_summary(self.session.view.facts.summary.state)
        if self.first is None:
            self.first = _names(summary)
        self.differ += summary.ledger.todos != self._todos(summary.now)
        self.reworded += sum(
            quote.text not in self.spoken for quote in summary.ledger.quotes if quote.why != "decision"
        )

    def _todos(self, now: int) -> tuple[Todo, ...]:
        """The newest list up to here, from the originals and in one go."""
        taken = [ledger_step("r", self._taken.pop(at), at) for at in sorted(self._taken) if at <= now]
        self._all = msgspec.structs.replace(update(self._all, taken), files=(), commands=(), failures=())
        return self._all.todos

    def mark(self) -> None:
        self.at_mark = (
            _names(decode_summary(self.session.view.facts.summary.state)),
            "\n".join(_texts(self._last)) if self._last else "",
        )

    def chain(self, late: Sequence[Message]) -> Chain:
        used = {name for message in late for part in message.parts if isinstance(part, ToolCall) for name in _in(part)}
        known = (self.first or frozenset()) & used
        kept, text = self.at_mark
        view = self.session.view
        return Chain(
            view.facts.folds,
            self.calls,
            self.refused,
            self.tokens,
            self.summary,
            self.state,
            tuple(self.lost),
            self.differ,
            self.reworded,
            len(known),
            len(known & kept),
            sum(name in text for name in known),
            tuple(sorted(known - kept)),
        )


def _in(call: ToolCall) -> set[str]:
    return names_in_lines(call.arguments.replace("\\n", "\n").replace('\\"', '"').split("\n"))


def _names(summary: Summary) -> frozenset[str]:
    return frozenset((*(name.text for name in summary.relevance.names), *(file.path for file in summary.ledger.files)))


def _texts(prompt: Prompt) -> list[str]:
    """What the atoms say: quicker to look through than the whole request."""
    found = [atom.gap.text for atom in prompt.atoms if atom.gap]
    for atom in prompt.atoms:
        for item in atom.items:
            for shown in item.shown:
                match shown.part:
                    case Text(text):
                        found.append(text)
                    case ToolCall(_, _, arguments):
                        found.append(arguments)
                    case None:
                        pass
                    case part:
                        found.extend(one.text for one in getattr(part, "content", ()) if isinstance(one, Text))
    return found
