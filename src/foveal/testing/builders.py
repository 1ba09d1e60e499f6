"""Sessions for tests: moves as values, and a player that makes them on any store.

    player = Player(MemoryStore(), limit=4_000)
    player.play([user("hello"), Asks(), assistant("hi"), Pins(0), Rewinds(1), user("again"), Asks()])
    player.prompts[-1].request

A move is something that happens to a session: a body that is appended, or one of the acts below. Entries are named by their
number among the entries that moves made, so that the same moves make sense whatever the ids are.
"""

import hashlib
from base64 import b32encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

from foveal.session.options import Clock, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.values.entry import Body, Message, Note, Pin, Unpin, Usage
from foveal.values.errors import OverBudget
from foveal.values.prompt import Prompt

MODELS: dict[str, str] = {
    "openai_chat": "gpt-5",
    "openai_responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
}
"""A known model for each dialect."""

READ_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True)
class Asks:
    """The move of asking for the prompt."""


@dataclass(frozen=True, slots=True)
class PinMove:
    """The move of pinning the entry of this number (modulo how many there are)."""

    at: int


@dataclass(frozen=True, slots=True)
class Unpins:
    at: int


@dataclass(frozen=True, slots=True)
class Rewinds:
    """The move of going on from the entry of this number."""

    to: int


@dataclass(frozen=True, slots=True)
class Switches:
    """The move of closing the session and opening it again for another dialect and its model."""

    dialect: str


Move: TypeAlias = Message | Note | Usage | Pin | Unpin | Asks | PinMove | Unpins | Rewinds | Switches


SECRET = b"the secret of all test sessions "
"""From which the nonce of their frame is made."""


def counted_ids(seed: str = "test") -> Callable[[], str]:
    """Return a maker of ids of the form that sessions make, but the same in every run."""
    numbers = count()

    def new_id() -> str:
        digest = hashlib.sha256(f"{seed}/{next(numbers)}".encode()).digest()
        return b32encode(digest)[:26].decode().lower()

    return new_id


def sends_at_most(tokens: int) -> Policy:
    """Return the default policy with this limit of tokens sent, and nothing reserved."""
    return Policy(budget=BudgetTable(limit=tokens, reserve=0))


def open_session(
    store: Store | None = None,
    name: str = "test",
    *,
    dialect: str = "openai_chat",
    model: str | None = None,
    limit: int = 200_000,
    policy: Policy | None = None,
    new_id: Callable[[], str] | None = None,
) -> Session:
    """Open a session whose ids and times are the same in every run."""
    return Session(
        MemoryStore() if store is None else store,
        name,
        model=Model(model or MODELS[dialect], dialect),
        policy=policy or sends_at_most(limit),
        clock=Clock(new_id or counted_ids(name), count().__next__, lambda: SECRET),
    )


class Player:
    """A player that makes moves on one session and keeps the prompts and errors that follow."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        dialect: str = "openai_chat",
        limit: int = 200_000,
        tools: Sequence[dict[str, Any]] = (),
        name: str = "test",
        policy: Policy | None = None,
    ) -> None:
        self.policy = policy or sends_at_most(limit)
        self.store: Store = MemoryStore() if store is None else store
        self.tools, self.name = tuple(tools), name
        self.dialect = dialect
        self.entries: list[str] = []
        self.prompts: list[Prompt] = []
        self.refusals: list[OverBudget] = []
        self._ids = counted_ids(name)
        self.session = self._open()

    def play(self, moves: Iterable[Move]) -> "Player":
        for move in moves:
            self.make(move)
        return self

    def make(self, move: Move) -> None:
        match move:
            case Asks():
                self.ask()
            case PinMove(at):
                self._mark(Pin, at)
            case Unpins(at):
                self._mark(Unpin, at)
            case Rewinds(to):
                if self.entries:
                    self.session.branches.rewind(self.entries[to % len(self.entries)])
            case Switches(dialect):
                self.reopen(dialect)
            case body:
                self.append(body)

    def append(self, body: Body) -> None:
        self.entries.append(self.session.append(body).id)

    def ask(self) -> Prompt | None:
        """Return the prompt, or None if it was refused for a reason that a caller can do something about."""
        try:
            prompt = self.session.prompt(self.tools)
        except OverBudget as refusal:
            self.refusals.append(refusal)
            return None
        self.prompts.append(prompt)
        return prompt

    def reopen(self, dialect: str | None = None) -> None:
        """Close the session and open it again from its store."""
        self.session.close()
        self.dialect = dialect or self.dialect
        self.session = self._open()

    def close(self) -> None:
        self.session.close()

    def _open(self) -> Session:
        return open_session(self.store, self.name, dialect=self.dialect, policy=self.policy, new_id=self._ids)

    def _mark(self, kind: type[Pin] | type[Unpin], at: int) -> None:
        if self.entries:
            self.session.append(kind(self.entries[at % len(self.entries)]))
