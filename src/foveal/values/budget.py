"""The budget of a session: limit, target, reserve, trigger.

Target and trigger are tokens of the whole prompt (whole numbers), or shares (fractions below 1) of the room that tools, side
context and the system prompt leave to the conversation: a share of the whole would ask a fold to go below what nothing can fold.
"""

from typing import NamedTuple

import msgspec

from foveal.values.errors import BadPolicy
from foveal.values.shown import Size

TARGET_SHARE = 0.6
"""A fold goes down to this share of the room: in replays of long coding sessions, cost rises slowly up to it and fast above."""

RESERVE_SHARE = 0.1
RESERVE_MOST = 8_192
"""Default room for the reply: a tenth of the context, and no more than most models answer."""

MAX_BYTES = 20_000_000
"""The smallest request body that one of the four providers accepts."""

MAX_IMAGES = 100
"""The number of images that a provider was seen to refuse beyond."""


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a prompt: the request plus `reserve` for the reply stays within `limit`, and a fold goes down to `target`.

    Above `trigger` a fold is due; without one, when the limit would be crossed.
    """

    limit: int
    target: int | float = TARGET_SHARE
    """A share is of the room below the trigger."""
    reserve: int = 0
    trigger: int | float | None = None
    max_bytes: int = MAX_BYTES
    max_images: int = MAX_IMAGES

    def __post_init__(self) -> None:
        for name in ("target", "trigger"):
            value = getattr(self, name)
            if isinstance(value, float) and not 0 < value < 1:
                raise BadPolicy(
                    f"budget.{name} is {value}; it is a share between 0 and 1 of the room for the conversation, or a whole "
                    "number of tokens"
                )
        for name in ("limit", "target", "max_bytes"):
            if getattr(self, name) <= 0:
                raise BadPolicy(f"budget.{name} is {getattr(self, name)}; it must be a positive number")
        for name in ("reserve", "max_images"):
            if getattr(self, name) < 0:
                raise BadPolicy(f"budget.{name} is {getattr(self, name)}; it cannot be negative")
        if self.reserve >= self.limit:
            raise BadPolicy(f"budget.reserve is {self.reserve:,}, which leaves nothing of the limit {self.limit:,}")
        if isinstance(self.target, int) and self.target > self.sendable:
            raise BadPolicy(
                f"budget.target is {self.target:,}; it must not be above limit - reserve = {self.sendable:,}"
            )
        if self.trigger is not None and not self._target_tokens < self._trigger_tokens <= self.sendable:
            raise BadPolicy(
                f"budget.trigger is {self.trigger:,}; it must be above the target {self.target:,} "
                f"and not above limit - reserve = {self.sendable:,}"
            )

    @property
    def sendable(self) -> int:
        """Tokens that a request may have: the limit without the reserve."""
        return self.limit - self.reserve

    def below(self, ceiling: int) -> "Budget":
        """Return this budget for a provider that was found to accept at most `ceiling` tokens, the reply included."""
        return self.sending_at_most(max(1, ceiling // 2, ceiling - self.reserve))

    def sending_at_most(self, room: int) -> "Budget":
        """Return this budget for requests of at most so many tokens."""
        if room >= self.sendable:
            return self
        trigger = min(self.trigger, room) if isinstance(self.trigger, int) else self.trigger
        due = _trigger_tokens(trigger, room)
        if due < 2:  # no target is below it
            trigger, due = None, room
        target = self.target
        if isinstance(target, int):
            target = max(1, min(target, int(due * TARGET_SHARE)))
        return msgspec.structs.replace(self, limit=room + self.reserve, target=target, trigger=trigger)

    def for_messages(self, factor: float, fixed_tokens: int, system_tokens: int) -> "MessageLimits":
        """Return the limits of the messages in our own count, if the provider counts `factor` times as much.

        `fixed_tokens` are beside the messages: tools, framing, side context. `system_tokens` are of messages that no fold covers.
        """

        def tokens(value: int | float, most: int) -> int:
            if isinstance(value, int):
                return int(value / factor) - fixed_tokens
            return system_tokens + int((most - system_tokens) * value)

        most = int(self.sendable / factor) - fixed_tokens
        due = most if self.trigger is None else tokens(self.trigger, most)
        share = self._target_tokens / self.sendable
        return MessageLimits(
            Size(most, self.max_bytes, self.max_images),
            Size(due, self.max_bytes, self.max_images),
            Size(tokens(self.target, due), int(self.max_bytes * share), int(self.max_images * share)),
        )

    @property
    def _trigger_tokens(self) -> int:
        """The trigger in tokens, where nothing is beside the conversation."""
        return _trigger_tokens(self.trigger, self.sendable)

    @property
    def _target_tokens(self) -> int:
        """The target in tokens, where nothing is beside the conversation."""
        return self.target if isinstance(self.target, int) else int(self._trigger_tokens * self.target)


class MessageLimits(NamedTuple):
    """Sizes of the messages: the largest, the size above which a fold is due, and the size that it aims at."""

    most: Size
    due: Size
    aim: Size


def _trigger_tokens(trigger: int | float | None, room: int) -> int:
    """Return a trigger in tokens, where a conversation has so much room."""
    share = 1.0 if trigger is None else trigger
    return share if isinstance(share, int) else int(room * share)


def one_knob(max_context_tokens: int) -> Budget:
    """Return the budget for a context of this many tokens, the reply included."""
    if max_context_tokens <= 0:
        raise BadPolicy(f"max_context_tokens is {max_context_tokens}; it must be a positive number")
    reserve = min(RESERVE_MOST, int(max_context_tokens * RESERVE_SHARE))
    return sent_limit(max_context_tokens - reserve, reserve)


def sent_limit(tokens: int, reserve: int = 0) -> Budget:
    """Return the budget that sends at most this many tokens."""
    if tokens <= 0:
        raise BadPolicy(f"the budget is {tokens} tokens; it must be a positive number")
    return Budget(tokens + reserve, reserve=reserve)
