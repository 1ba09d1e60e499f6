"""The stage `Shorten`: cuts large old results and arguments to their most telling lines and a note of the omission."""

from collections.abc import Collection, Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.checks import check_shortens
from foveal.project.atoms import calls_of, hint_of, shown_parts
from foveal.text import shorten
from foveal.text.names import search_terms
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.arguments import shorten_arguments
from foveal.text.shorten.head_tail import head_tail
from foveal.text.shorten.reference import as_text
from foveal.values.entry import Part, PartFold, Text, ToolCall, ToolResult
from foveal.values.shown import Atom, Item, Shown, short_ref

LEAST_TOKENS = 60
"""Below this, a stand-in is hardly shorter than the text."""

NEWEST_OVER, NEWEST_TO = 0.25, 0.2
"""Shares of the limit that one part of the newest content may take, and is cut to: one huge result or paste does not take the
place of everything else, and nothing smaller is cut before the model has seen it."""

NEWEST_TOKENS = 1_000
"""A part of the newest content is not huge below this, however little room there is."""

_RECENT_ATOMS = 12
"""Number of newest atoms whose calls show the agent's current focus."""


class Shorten(msgspec.Struct, frozen=True, tag="shorten", tag_field="fold", forbid_unknown_fields=True):
    """Cuts parts above `over` of the limit to `to` of it, except in the newest `keep` of it.

    With `keep` 0 that includes the calls that wait for the model and the user's requests; these keep `NEWEST_TO` of the limit.

    `without` names levels that are not to be used (`json`, `logs`, `source`, …); `plain` uses none but head and tail.
    """

    over: float = 0.02
    to: float = 0.01
    keep: float = 0.25
    plain: bool = False
    without: tuple[str, ...] = ()
    last_resort: bool = False

    def __post_init__(self) -> None:
        check_shortens(self)

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        because = "more than a part may keep once it is old"
        over, to = (max(LEAST_TOKENS, int(scene.limit * share)) for share in (self.over, self.to))
        for atom in scene.foldable(self.keep):
            yield from self._cut(scene, atom, over, to, because)
        if self.keep:
            return
        because = "more than one part of the newest content may take of the limit"
        over = max(over, NEWEST_TOKENS, int(scene.limit * NEWEST_OVER))
        to = max(to, NEWEST_TOKENS, int(scene.limit * NEWEST_TO))
        for atom in scene.newest:
            yield from self._cut(scene, atom, over, to, because)

    def _cut(self, scene: Scene, atom: Atom, over: int, to: int, because: str) -> Iterator[PartFold]:
        for item, i, shown, call in shown_parts(atom):
            if shown.size.tokens > over and _is_uncut(shown) and is_cuttable(item, shown.part):
                focus = frozenset[str]() if self.plain else _focus(scene)
                room = Allowance(to, scene.count, short_ref(item.id, i), focus, scene.view.projection.guard.live)
                text = cut_part(shown, hint_of(call), room, plain=self.plain, without=self.without)
                if text is not None:
                    why = f"{shown.size.tokens:,} tokens, {because}"
                    yield scene.fold((item.id, i), text, level="trimmed", policy="shorten", because=why)


def is_cuttable(item: Item, part: Part | None) -> bool:
    """Return whether a part may be shown by a part of its text: a result, the arguments of a call, a user's words."""
    return isinstance(part, ToolCall | ToolResult) or (isinstance(part, Text) and item.role == "user")


def cut_part(
    shown: Shown, hint: str, room: Allowance, *, plain: bool = False, without: Collection[str] = ()
) -> str | None:
    """Return a shorter text for a part that can be cut; None if there is none."""
    match shown.part:
        case ToolResult(_, content) if shown.level != "full":  # it has notes of ours already, which a cut leaves alone
            return head_tail(as_text(content), room.tokens, room.count, room.ref)
        case ToolResult(_, content):
            found = shorten.trim(as_text(content), hint, room, plain=plain, without=without)
            return found[1] if found else None
        case ToolCall(_, _, arguments):
            return shorten_arguments(arguments, room.tokens, room.count, room.ref)
        case Text(text):
            return shorten.shorten_message(text, room)
        case _:
            return None


def _is_uncut(shown: Shown) -> bool:
    """Return whether no fold has cut the part yet. The excerpt of an artifact counts as uncut: it may still be large."""
    return shown.level == "full" or (shown.level == "trimmed" and shown.policy == "arrival")


def _focus(scene: Scene) -> frozenset[str]:
    """Return the words of the newest calls and of the latest request: lines with such words are kept first."""
    atoms = scene.view.atoms
    words: set[str] = set()
    for atom in atoms[-_RECENT_ATOMS:]:
        for call in calls_of(atom):
            words.update(search_terms(call.arguments[:4_000]))
    asked = scene.view.place(scene.view.facts.last_user)
    if asked is not None:
        for _, _, shown, _ in shown_parts(atoms[asked]):
            if isinstance(shown.part, Text):
                words.update(search_terms(shown.part.text[:4_000]))
    return frozenset(words)
