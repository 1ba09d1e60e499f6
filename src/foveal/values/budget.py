"""The budget of a session: limit, target, reserve, trigger. All are counts, never shares whose meaning depends on their size."""

import msgspec

from foveal.values.errors import BadPolicy
from foveal.values.shown import Size

TARGET_SHARE = 0.6
"""A fold goes down to this share of the limit: in replays of long coding sessions, cost rises slowly up to it and fast above."""

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
    target: int
    reserve: int = 0
    trigger: int | None = None
    max_bytes: int = MAX_BYTES
    max_images: int = MAX_IMAGES

    def __post_init__(self) -> None:
        for name in ("limit", "target", "max_bytes"):
            if getattr(self, name) <= 0:
                raise BadPolicy(f"budget.{name} is {getattr(self, name)}; it must be a positive number")
        for name in ("reserve", "max_images"):
            if getattr(self, name) < 0:
                raise BadPolicy(f"budget.{name} is {getattr(self, name)}; it cannot be negative")
        if self.reserve >= self.limit:
            raise BadPolicy(f"budget.reserve is {self.reserve:,}, which leaves nothing of the limit {self.limit:,}")
        if self.target > self.sendable:
            raise BadPolicy(
                f"budget.target is {self.target:,}; it must not be above limit - reserve = {self.sendable:,}"
            )
        if self.trigger is not None and not self.target < self.trigger <= self.sendable:
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
        return self.sending_at_most(max(1, ceiling - self.reserve if ceiling > 2 * self.reserve else ceiling // 2))

    def sending_at_most(self, room: int) -> "Budget":
        """Return this budget for requests of at most so many tokens."""
        if room >= self.sendable:
            return self
        trigger = None if self.trigger is None else max(2, min(self.trigger, room))
        target = max(1, min(self.target, int((trigger or room) * TARGET_SHARE)))
        return msgspec.structs.replace(self, limit=room + self.reserve, target=target, trigger=trigger)

    def message_trigger(self, factor: float, fixed_tokens: int) -> Size:
        """Return the size of the messages above which a fold is due."""
        if self.trigger is None:
            return self.message_limit(factor, fixed_tokens)
        return Size(int(self.trigger / factor) - fixed_tokens, self.max_bytes, self.max_images)

    def message_limit(self, factor: float, fixed_tokens: int) -> Size:
        """Return the largest size of the messages, in our own count, if the provider counts `factor` times as much."""
        return Size(int(self.sendable / factor) - fixed_tokens, self.max_bytes, self.max_images)

    def message_target(self, factor: float, fixed_tokens: int) -> Size:
        """Return the size that the messages are folded down to."""
        share = self.target / self.sendable
        return Size(int(self.target / factor) - fixed_tokens, int(self.max_bytes * share), int(self.max_images * share))


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
    return Budget(tokens + reserve, max(1, int(tokens * TARGET_SHARE)), reserve)
