"""The input of every engine, and how it is driven: one session, one budget, one counter, one stub for a summariser."""

import json
from functools import lru_cache
from typing import Any

from splintr import Tokenizer

Chat = dict[str, Any]
Shown = list["int | Chat"]
"""Messages of the session by their place, and messages that the engine wrote."""

STUB = "Earlier parts of the conversation have been summarised: the work goes on as planned."
KEEP = 0.5
"""The target of engines that have one, as a share of the budget."""
KEPT_RESULTS = 3
"""Newest results that engines which clear results leave: their own default."""


class Job:
    """One session under one budget."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.messages: list[Chat] = given["messages"]
        self.calls: list[int] = given["calls"]
        self.budget: int = given["budget"]
        self.sizes: list[int] = given.get("sizes") or [tokens_of(message) for message in self.messages]
        """Tokens of each message: counted once for all engines, by the formula below."""
        self.lead = next((i for i, one in enumerate(self.messages) if one["role"] != "system"), 0)
        """How many system messages stand in front."""
        self.asked = 0

    @property
    def room(self) -> int:
        """The budget of engines that do not count the system prompt."""
        return self.budget - sum(self.sizes[: self.lead])

    def summary(self, *_: object) -> str:
        self.asked += 1
        return STUB


class Engine:
    """How an engine is driven. `arrange` makes the objects that its framework has before the call, and is not timed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.covered = 0
        """Messages that the prompt names a place of, from the first on: one read away."""

    def arrange(self, place: int) -> None: ...

    def step(self, place: int) -> None: ...

    def shown(self, place: int) -> Shown:
        raise NotImplementedError


class Plain(Engine):
    """Engines that take the chat format as it is and look at the whole history each time."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._places = {_key(message): place for place, message in enumerate(job.messages)}
        self.sent: list[Chat] = []

    def size(self, message: Chat) -> int:
        """Looked up: an engine that counts everything again and again would be billed for our counting."""
        place = self._places.get(_key(message))
        return tokens_of(message) if place is None else self.job.sizes[place]

    def shown(self, place: int) -> Shown:
        return [self._places.get(_key(message), message) for message in self.sent]


def _key(message: Chat) -> tuple[object, ...]:
    """Return a key of a message. Engines copy messages but not their strings, whose hashes are known."""
    calls = tuple((call["id"], *call["function"].values()) for call in message.get("tool_calls") or ())
    content = message.get("content")
    text = content if isinstance(content, str | None) else compact(content)
    return message["role"], text, message.get("tool_call_id"), message.get("name"), calls


# The counter: the same formula and vocabulary as the benchmark's own.


def tokens_of(message: Chat) -> int:
    calls = count(compact(message["tool_calls"])) if message.get("tool_calls") else 0
    return 4 + count(content_text(message)) + calls + count(message.get("tool_call_id") or "")


def content_text(message: Chat) -> str:
    content = message.get("content")
    return "\n".join(part.get("text") or "" for part in content) if isinstance(content, list) else content or ""


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_TOKENIZER = Tokenizer.from_pretrained("o200k_base")


@lru_cache(50_000)
def count(text: str) -> int:
    return len(_TOKENIZER.encode_flat(text)) // 4 if text else 0  # four bytes a token
