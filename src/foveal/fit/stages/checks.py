"""Checks of the numbers of a stage, made when the stage is created, so that a wrong one is never acted upon."""

import msgspec

from foveal.values.errors import BadPolicy


def check_shares(stage: msgspec.Struct, *names: str) -> None:
    """Raise `BadPolicy` unless these options are shares of the limit."""
    for name in names:
        value = getattr(stage, name)
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise BadPolicy(f"{_name(stage)}: {name} is {value!r}; it is a share of the limit, from 0 to 1")


def check_count(stage: msgspec.Struct, name: str, *, least: int) -> None:
    """Raise `BadPolicy` unless this option is None or a whole number of at least `least`."""
    value = getattr(stage, name)
    if value is not None and (type(value) is not int or value < least):
        raise BadPolicy(f"{_name(stage)}: {name} is {value!r}; it is a whole number, at least {least}")


def check_shortens(stage: msgspec.Struct) -> None:
    """Raise `BadPolicy` unless `to` is at most `over`, and both and `keep` are shares."""
    check_shares(stage, "over", "to", "keep")
    over, to = getattr(stage, "over"), getattr(stage, "to")  # noqa: B009 - two kinds of stage have them
    if to > over:
        raise BadPolicy(f"{_name(stage)}: to is {to} and over is {over}; to is at most over, else nothing gets shorter")


def _name(stage: msgspec.Struct) -> str:
    return str(stage.__struct_config__.tag)
