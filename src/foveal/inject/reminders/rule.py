"""What a policy says of reminders: rules, and when a prompt counts as full. Apart from all that evaluates them."""

from typing import Literal, TypeAlias

import msgspec

from foveal.core.errors import BadPolicy
from foveal.inject.reminders.templates import is_name

Level: TypeAlias = Literal["info", "warning", "critical"]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When to say what. The text of a rule without a template stands in the catalogues, under its id."""

    id: str
    trigger: str = ""
    template: str = ""
    once: bool = False
    """Said in one call of the session, and not again."""
    every: int | None = None
    """Said again after so many calls at the earliest; None is each call for which it holds."""
    at_least: dict[str, int] = {}
    """Bounds on the numbers that the trigger gives, by their names."""
    at_most: dict[str, int] = {}
    equal: dict[str, str | int] = {}
    needs_tools: tuple[str, ...] = ()
    """Said only if all of these are offered: no advice that cannot be followed."""
    off: bool = False
    """Never said. This is how a built-in rule is switched off."""

    def __post_init__(self) -> None:
        if not is_name(self.id):
            raise BadPolicy(f"the reminder {self.id!r} needs an id of small letters, digits and _")
        if not self.off and not self.trigger:
            raise BadPolicy(f"reminders.{self.id} has no trigger; only a rule with off = true needs none")
        if self.every is not None and self.every <= 0:
            raise BadPolicy(f"reminders.{self.id}.every is {self.every}; it is a positive number of calls")
        if self.once and self.every is not None:
            raise BadPolicy(f"reminders.{self.id} has both once and every; keep one of them")


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """From which share of the limit the context counts as full. Tokens, never steps or messages."""

    info: float = 0.7
    warning: float = 0.8
    critical: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.info < self.warning < self.critical <= 1:
            raise BadPolicy(
                f"pressure is info {self.info}, warning {self.warning}, critical {self.critical}; "
                "they are shares of the limit that rise, above 0 and up to 1"
            )

    def level(self, used_tokens: int, limit_tokens: int) -> Level | None:
        for level in ("critical", "warning", "info"):
            if used_tokens >= getattr(self, level) * limit_tokens:
                return level
        return None
