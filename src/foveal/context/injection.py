"""The side context of one prompt, and the facts about the next call that only the host knows."""

from typing import NamedTuple

import msgspec

from foveal.context.templates import Value
from foveal.values.entry import Fence, PromptContext
from foveal.values.errors import OverBudget
from foveal.values.trace import TraceLine


class Injection(NamedTuple):
    """The side context of one prompt, with a line of the trace for each block and for each block that was held back."""

    context: PromptContext
    lines: tuple[TraceLine, ...] = ()
    tokens: int = 0
    mandatory: int = 0
    """Tokens of the blocks that may not be cut."""
    expired: tuple[Fence, ...] = ()
    """Fences whose time has passed; their lines say so, and the view need not keep them."""


NOTHING = Injection(PromptContext(()))

OPTIONAL_SHARES = (1.0, 0.5, 0.2, 0.0)
"""Shares of the room that optional side context may take, tried in this order until the prompt fits."""


class NextCall(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the next model call that only the host knows."""

    steps_left: int | None = None
    """Read by reminders."""
    facts: dict[str, Value] = {}
    """Read by reminders."""
    reply_tokens: int | None = None
    """The most tokens that the reply may have. Prompt and reply stay within the model's window, and a request that must name a
    maximum (Anthropic's `max_tokens`) names this one. None leaves the reply what the budget reserves."""


def with_fences(error: OverBudget, tokens: int) -> OverBudget:
    """Return the error with the tokens of mandatory fences among its parts."""
    if not tokens or error.unit != "tokens":
        return error
    return OverBudget(error.limit + tokens, {"fences": tokens, **error.parts})
