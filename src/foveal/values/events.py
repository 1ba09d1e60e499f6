"""Events that hosts can watch: compactions as they happen, and the pressure of the prompt."""

import warnings
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from foveal.values.errors import BadPolicy

PressureLevel: TypeAlias = Literal["none", "info", "warning", "critical"]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Shares of the limit, in tokens, at which each level of pressure begins."""

    info: float = 0.7
    warning: float = 0.8
    critical: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.info < self.warning < self.critical <= 1:
            raise BadPolicy(
                f"pressure is info {self.info}, warning {self.warning}, critical {self.critical}; "
                "they are shares of the limit that rise, above 0 and up to 1"
            )

    def level(self, used_tokens: int, limit_tokens: int) -> "Literal['info', 'warning', 'critical'] | None":
        """Return the highest level that this many tokens reach; None below all of them."""
        for level in ("critical", "warning", "info"):
            if used_tokens >= getattr(self, level) * limit_tokens:
                return level
        return None


class Pressure(msgspec.Struct, frozen=True):
    """Fullness of the next prompt."""

    tokens: int
    limit: int
    """Above this a fold is due."""
    thresholds: Thresholds = Thresholds()

    @property
    def share(self) -> float:
        return self.tokens / self.limit if self.limit > 0 else 1.0

    @property
    def level(self) -> PressureLevel:
        return self.thresholds.level(self.tokens, self.limit) or "none"


class CompactionStarted(msgspec.Struct, frozen=True):
    session: str
    reason: str
    before: int


class CompactionEnded(msgspec.Struct, frozen=True):
    session: str
    reason: str
    before: int
    after: int
    rebilled: int
    """Tokens that the provider's cache no longer serves because the prefix moved."""
    author: str
    """Author of the summary's prose; `code` if only the engine wrote it."""
    duration_ms: int
    cost_usd: float | None = None
    """Cost of the summariser's own call; None if no summariser was asked or it did not report one."""


class SummaryRefused(msgspec.Struct, frozen=True):
    """A summariser's answer was refused; the engine's own summary is used."""

    session: str
    author: str
    why: str
    detail: str
    duration_ms: int


class LimitLearned(msgspec.Struct, frozen=True):
    """A provider was found to accept less than was assumed: prompts are smaller from here on, if `is_applied`."""

    session: str
    model: str
    limit: int
    because: str
    is_applied: bool
    """False for a limit that usage alone tells, under a policy with a limit of its own."""


Event: TypeAlias = CompactionStarted | CompactionEnded | SummaryRefused | LimitLearned

Listener: TypeAlias = Callable[[Event], None]


def tell(listener: Listener, event: Event) -> None:
    """Call the listener. Its failure becomes a warning: a watcher must not end the session."""
    try:
        listener(event)
    except Exception as error:
        warnings.warn(f"on_event raised {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)


def ignore(_event: Event) -> None:
    """Do nothing: the listener of a session without one."""
