"""The port of summarisers, which write the prose of a summary.

A summariser is a callable that takes a `Question` and returns text, or a `Reply` if it also knows the cost. It may be async. It
may be slow, fail or lie: `call` is prepared for that, and an accepted answer is prose beside the state that code carries, never
instead of it.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from foveal.summary.question import Question
from foveal.values.entry import Usage
from foveal.values.errors import FovealError

Fault: TypeAlias = Literal[
    "raised", "rejected", "rate_limited", "cut_off", "too_long", "tool_call", "refusal", "not_text"
]
"""Ways in which a summariser gives no answer at all. `rejected`: the request itself is wrong (key, model, option)."""


class Reply(msgspec.Struct, frozen=True):
    """An answer with its cost, for summarisers that know it."""

    text: str
    usage: Usage | None = None
    cost_usd: float | None = None


SummariserAnswer: TypeAlias = str | Reply
Summariser: TypeAlias = Callable[[Question], SummariserAnswer] | Callable[[Question], Awaitable[SummariserAnswer]]


class Unanswered(FovealError):
    """Raised by a summariser that has no answer, with the kind of its failure. `usage` was paid all the same."""

    def __init__(self, fault: Fault, what: str, usage: Usage | None = None) -> None:
        self.fault: Fault = fault
        self.usage = usage
        super().__init__(what)
