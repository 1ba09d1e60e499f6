"""Which level suits a text, and the stand-in that it makes. Registering a level is one line."""

from collections.abc import Callable, Collection

import msgspec

from foveal.levels import blob, diff, html_text, json_data, listing, logs, prose, search, source, stack, table
from foveal.levels.head_tail import head_tail
from foveal.levels.pick import finish
from foveal.levels.room import Room


class Level(msgspec.Struct, frozen=True):
    name: str
    fits: Callable[[str, str], bool]
    """Whether a text looks like it, given the text and what the tool was asked."""
    shrink: Callable[[str, Room], str | None]


LEVELS: tuple[Level, ...] = (
    Level("json", json_data.fits, json_data.shrink),
    Level("diff", diff.fits, diff.shrink),
    Level("stack", stack.fits, stack.shrink),
    Level("html", html_text.fits, html_text.shrink),
    Level("blob", blob.fits, blob.shrink),
    Level("search", search.fits, search.shrink),
    Level("listing", listing.fits, listing.shrink),
    Level("logs", logs.fits, logs.shrink),
    Level("table", table.fits, table.shrink),
    Level("source", source.fits, source.shrink),
    Level("prose", prose.fits, prose.shrink),
)
"""In the order in which they are asked: what is told by its form first, what accepts almost anything last."""


def trim(
    text: str, hint: str, room: Room, *, plain: bool = False, without: Collection[str] = ()
) -> tuple[str, str] | None:
    """The name of the level and the stand-in, from the first level that suits and has something to leave out.

    `plain` is head and tail only; `without` names levels that are passed over.
    """
    for level in () if plain else LEVELS:
        if level.name not in without and level.fits(text, hint):
            shown = level.shrink(text, room)
            if shown is not None:
                return level.name, shown
    shown = finish(text, head_tail(text, room.tokens, room.count, room.ref), room)
    return None if shown is None else ("head_tail", shown)


def kind_of(text: str, hint: str) -> str:
    """The name of the level that suits the text."""
    return next((level.name for level in LEVELS if level.fits(text, hint)), "text")
