"""The newest content of a view, made to fit: the calls that wait for the model, and the requests of the user.

No stage covers or clears it: the model has not seen it, or must not forget it. Where it is too large all the same, its largest
parts are cut, from their originals, as far as the limit demands and no further. A part becomes a bare reference only where
nothing else is left to give.
"""

from collections.abc import Iterator

from foveal.fit.scene import Scene
from foveal.fit.stages.clear import clear_part
from foveal.fit.stages.shorten import LEAST_TOKENS, cut_part
from foveal.project.atoms import hint_of, shown_parts
from foveal.project.view import View
from foveal.text.shorten.allowance import Allowance, share_out
from foveal.values.entry import PartFold, Text, ToolCall, ToolResult
from foveal.values.shown import Atom, Shown, Size, short_ref, total

_REFERENCE_TOKENS = 24
"""Tokens of a bare reference, about."""

_FRAME_TOKENS = 24
"""Ids and framing of a call or a result; only the text inside is cut."""

_ROUNDS = 4
"""Stand-ins come out a little smaller or larger than asked for: the rest is shared out again."""
_SLACK_TOKENS = 8
"""Tokens by which each round asks for more than the last one: a stand-in that was a token too long would come out as it was."""


def least_size(scene: Scene, atoms: list[Atom]) -> Size:
    """Return a size below which these mandatory atoms cannot be brought."""
    newest = {id(atom) for atom in scene.newest}
    return total(_least(atom) if id(atom) in newest else atom.size for atom in atoms)


def _least(atom: Atom) -> Size:
    cuttable = total(shown.size for _, _, shown, _ in shown_parts(atom))
    parts = sum(1 for _, _, shown, _ in shown_parts(atom) if shown.size.tokens)
    rest = atom.size - cuttable
    return Size(rest.tokens + min(cuttable.tokens, parts * _REFERENCE_TOKENS), rest.bytes, rest.images)


def shorten_newest(scene: Scene, before: View, limit: Size) -> Iterator[PartFold]:
    """Yield folds of the newest content, applied to the scene's view, until it is within the limit.

    `before` is the view without any fold of this batch, from which the parts are cut.
    """
    for number in range(_ROUNDS):
        excess = scene.view.size.tokens - limit.tokens
        if excess <= 0:
            break
        yield from _cut_to(scene, before, excess + number * _SLACK_TOKENS)
    left = [part for atom in scene.newest for part in shown_parts(atom) if not part[0].pinned]
    for item, i, shown, call in sorted(
        left, key=lambda part: -part[2].size.tokens
    ):  # few large ones before many small ones
        if scene.view.size.within(limit):
            return
        for fold in clear_part(scene, item, i, shown, call):
            yield from _applied(scene, fold)


def _cut_to(scene: Scene, before: View, excess: int) -> Iterator[PartFold]:
    """Yield folds that cut the largest parts by so many tokens together."""
    parts = [
        (item, i, shown, call)
        for atom in scene.newest
        for item, i, shown, call in shown_parts(atom)
        if not item.pinned and isinstance(shown.part, ToolCall | ToolResult | Text)
    ]
    sizes = [shown.size.tokens for _, _, shown, _ in parts]
    each = share_out(sizes, sum(sizes) - excess)
    for item, i, shown, call in parts:
        if shown.size.tokens > max(each, LEAST_TOKENS):
            ref, guard = short_ref(item.id, i), scene.view.projection.guard.live
            room = Allowance(max(LEAST_TOKENS, each - _FRAME_TOKENS), scene.count, ref, guard=guard)
            text = cut_part(_original(before, item.id, i) or shown, hint_of(call), room)
            if text is not None:
                because = f"{shown.size.tokens:,} tokens of the newest content, which has room for {max(each, 0):,}"
                fold = scene.fold((item.id, i), text, level="trimmed", policy="newest", because=because)
                yield from _applied(scene, fold)


def _applied(scene: Scene, fold: PartFold) -> Iterator[PartFold]:
    if scene.view.transcript.shrinks(fold):
        scene.view.transcript.apply((fold,))
        yield fold


def _original(before: View, entry_id: str, index: int) -> Shown | None:
    """Return the part as it was shown before this batch of folds."""
    place = before.place(entry_id)
    if place is None:
        return None
    item = next((item for item in before.atoms[place].items if item.id == entry_id), None)
    return item.shown[index] if item else None
