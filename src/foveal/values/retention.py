"""Retention: at which level of detail a result starts, how low it may fall, and when.

Rules come in layers, and each layer overrides only the fields it sets: built in < the tool's own definition < policy file
(toolkit < pattern < exact name) < scenario < the single call. `RetentionRule` is one layer; `Retention` is the result of all.
"""

from typing import Literal, TypeAlias, get_args

import msgspec

from foveal.values.errors import BadPolicy

Mode: TypeAlias = Literal["full", "summary", "reference", "pin"]
Level: TypeAlias = Literal["full", "trimmed", "outline", "reference", "covered"]

LADDER: tuple[Level, ...] = ("covered", "reference", "outline", "trimmed", "full")
"""The levels from the lowest to the highest."""

STARTS: dict[str, Level] = {"full": "full", "summary": "trimmed", "reference": "reference", "pin": "full"}
"""The level at which each mode lets a result start."""

SUMMARY_TOKENS = 2_000
"""Limit of a `summary` without one of its own: models given less were seen to fetch the rest again and again."""


def is_below(level: str, floor: str) -> bool:
    """Return whether a level is under a floor. Levels outside the ladder (`cleared`, `hidden`) are neither."""
    return level in LADDER and floor in LADDER and LADDER.index(level) < LADDER.index(floor)


class RetentionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One layer of retention. A lower layer decides the fields that are None."""

    mode: Mode | None = None
    limit_tokens: int | None = None
    limit_characters: int | None = None
    head: float | None = None
    """Share of a summary that is the beginning; set, it makes a plain head and tail of it."""
    hint: str | None = None
    """Advice for the model, shown with the reference."""
    ttl_turns: int | None = None
    """After so many user messages the result is among the first to be folded."""
    floor: Level | None = None
    """The lowest level that it may fall to."""
    renderer: str | None = None
    """The name of a function of the host's that shows the result to the model."""

    def __post_init__(self) -> None:
        for name, known in (("mode", get_args(Mode)), ("floor", LADDER)):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise BadPolicy(f"{name} is {value!r}; it is one of {', '.join(known)}")
        for name in ("limit_tokens", "limit_characters", "ttl_turns"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value <= 0):
                raise BadPolicy(f"{name} is {value!r}; it must be a positive number")
        if self.limit_tokens is not None and self.limit_characters is not None:
            raise BadPolicy("limit_tokens and limit_characters are both set; keep one of them")
        if self.head is not None and not 0 <= self.head <= 1:
            raise BadPolicy(f"head is {self.head}; it is a share between 0 and 1")
        if self.mode and self.floor and is_below(STARTS[self.mode], self.floor):
            raise BadPolicy(f"mode is {self.mode!r} and floor is {self.floor!r}: it would start below its floor")
        if self.mode == "pin" and (self.floor not in (None, "full") or self.ttl_turns is not None):
            raise BadPolicy("mode is 'pin', which stays whole for ever; it has no floor below that and no ttl_turns")


class Retention(msgspec.Struct, frozen=True, omit_defaults=True):
    """The retention of one result: all layers applied."""

    mode: Mode = "full"
    limit_tokens: int | None = None
    limit_characters: int | None = None
    head: float | None = None
    hint: str = ""
    ttl_turns: int | None = None
    floor: Level = "covered"
    renderer: str | None = None


FULL = Retention()


def overlay(retention: Retention, rule: RetentionRule) -> Retention:
    """Return the retention with the fields that this layer sets."""
    said = {name: value for name in RetentionRule.__struct_fields__ if (value := getattr(rule, name)) is not None}
    if "limit_tokens" in said:
        said.setdefault("limit_characters", None)
    if "limit_characters" in said:
        said.setdefault("limit_tokens", None)
    return msgspec.structs.replace(retention, **said) if said else retention
