"""Choice of the level that suits a text, and its stand-in. Registering a level is one line."""

from collections.abc import Callable, Collection

import msgspec

from foveal.text.guard.seals import sealable, unsealed
from foveal.text.shorten import blob, diff, html_text, json_data, listing, logs, prose, search, source, stack, table
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.head_tail import sealed_head_tail
from foveal.text.shorten.line_selection import guarded, only_if_shorter

_ATTEMPTS = 5


class ContentLevel(msgspec.Struct, frozen=True):
    name: str
    fits: Callable[[str, str], bool]
    """Whether the level suits a text, given the text and the call that produced it."""
    shrink: Callable[[str, Allowance], str | None]


LEVELS: tuple[ContentLevel, ...] = (
    ContentLevel("json", json_data.fits, json_data.shrink),
    ContentLevel("diff", diff.fits, diff.shrink),
    ContentLevel("stack", stack.fits, stack.shrink),
    ContentLevel("html", html_text.fits, html_text.shrink),
    ContentLevel("blob", blob.fits, blob.shrink),
    ContentLevel("search", search.fits, search.shrink),
    ContentLevel("listing", listing.fits, listing.shrink),
    ContentLevel("logs", logs.fits, logs.shrink),
    ContentLevel("table", table.fits, table.shrink),
    ContentLevel("source", source.fits, source.shrink),
    ContentLevel("prose", prose.fits, prose.shrink),
)
"""In the order in which they are tried: levels with a distinct form first, levels that accept almost anything last."""


def trim(
    text: str, hint: str, allowance: Allowance, *, plain: bool = False, without: Collection[str] = ()
) -> tuple[str, str] | None:
    """Return the name and the stand-in of the first level that suits the text and has something to leave out.

    `plain` allows head and tail only; `without` names levels that are skipped. In the stand-in, nothing is live but the notes
    that the level wrote.
    """
    text = sealable(text)
    for level in () if plain else LEVELS:
        if level.name not in without and level.fits(text, hint):
            shown = stand_in(text, allowance, level.shrink)
            if shown is not None:
                return level.name, shown
    shown = stand_in(text, allowance, _head_tail)
    return None if shown is None else ("head_tail", shown)


def stand_in(text: str, allowance: Allowance, shrink: Callable[[str, Allowance], str | None]) -> str | None:
    """Return the guarded stand-in. Marks take tokens: one that they make too long is made anew with as many tokens less."""
    room = allowance
    for _ in range(_ATTEMPTS):
        shown = shrink(text, room)
        if shown is None:
            return None
        if (safe := guarded(text, shown, allowance)) is not None:
            return safe
        over = allowance.count(unsealed(shown, allowance.guard)) - allowance.tokens
        if over <= 0 or over >= room.tokens:
            return None
        room = msgspec.structs.replace(room, tokens=room.tokens - over)
    return None


def _head_tail(text: str, allowance: Allowance) -> str | None:
    shown = sealed_head_tail(text, allowance.tokens, allowance.count, allowance.ref)
    return only_if_shorter(text, shown, allowance)


def kind_of(text: str, hint: str) -> str:
    """Return the name of the level that suits the text."""
    return next((level.name for level in LEVELS if level.fits(text, hint)), "text")
