"""A reminder rule as a policy file holds it."""

import msgspec

from foveal.context.templates import is_name
from foveal.values.errors import BadPolicy


class ReminderRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A trigger with its bounds, and the text to show. A rule without a template has its text in the catalogues, by its id."""

    id: str
    trigger: str = ""
    template: str = ""
    once: bool = False
    """Shown in one call of the session only."""
    every: int | None = None
    """Least number of calls between two showings; None shows it in each call for which it holds."""
    at_least: dict[str, int] = {}
    """Lower bounds on the numbers that the trigger gives, by their names."""
    at_most: dict[str, int] = {}
    equal: dict[str, str | int] = {}
    needs_tools: tuple[str, ...] = ()
    """Shown only if all of these tools are offered, so that the advice can be followed."""
    off: bool = False
    """Never shown. This is how a built-in rule is switched off."""

    def __post_init__(self) -> None:
        if not is_name(self.id):
            raise BadPolicy(f"the reminder {self.id!r} needs an id of small letters, digits and _")
        if not self.off and not self.trigger:
            raise BadPolicy(f"reminders.{self.id} has no trigger; only a rule with off = true needs none")
        if self.every is not None and self.every <= 0:
            raise BadPolicy(f"reminders.{self.id}.every is {self.every}; it is a positive number of calls")
        if self.once and self.every is not None:
            raise BadPolicy(f"reminders.{self.id} has both once and every; keep one of them")
