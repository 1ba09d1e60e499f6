"""The stage `History`: a window over tool calls, outside of which they are dropped or compressed.

A **pair** is a reply with its calls and all their results, however many; it is one atom and cannot be cut. A **run** goes from
one request of the user to the next.

Like every stage, the window moves only when the view is over its limit, and only as far as the goal needs. A window that
moved with every request would move the prefix with every request, and the savings would be paid for again.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.call_pairs import compress, cover, neighbours
from foveal.fit.stages.checks import check_count
from foveal.project.atoms import shown_parts
from foveal.text.shorten.allowance import share_out
from foveal.text.shorten.arguments import shorten_arguments
from foveal.text.shorten.head_tail import head_tail
from foveal.text.shorten.reference import as_text
from foveal.values.entry import FoldItem, PartFold, ToolCall, ToolResult
from foveal.values.errors import BadPolicy
from foveal.values.shown import Atom, Shown, short_ref

_FRAME_TOKENS = 24
"""Ids and framing of a call or a result; only the text inside is cut."""
_LEAST_ROOM = 60


class History(msgspec.Struct, frozen=True, tag="history", tag_field="fold", forbid_unknown_fields=True):
    """Keeps the newest `keep` runs (or pairs) whole; the current run always stays and counts as the newest.

    `max_pairs` limits the pairs inside the window, `max_pair_tokens` the size of each, wherever it is; None is no limit.
    """

    window: Literal["per_run", "per_pair", "none"] = "per_run"
    keep: int = 1
    mode: Literal["drop", "compress"] = "drop"
    max_pair_tokens: int | None = 6_000
    max_pairs: int | None = 12
    overflow: Literal["keep_latest", "fail_fast"] = "keep_latest"
    last_resort: bool = False

    def __post_init__(self) -> None:
        for name, least in (("keep", 0), ("max_pair_tokens", 1), ("max_pairs", 0)):
            check_count(self, name, least=least)

    def __call__(self, scene: Scene) -> Iterator[FoldItem]:
        runs = _runs(scene)
        inside = self._inside(runs)
        current = runs[-1]
        if self.max_pairs is not None and len(inside) > self.max_pairs:
            if self.overflow == "fail_fast":
                raise BadPolicy(
                    f"history: {len(inside):,} pairs are inside the window, {self.max_pairs:,} are allowed (max_pairs). "
                    'Raise it, lower `keep`, or set overflow = "keep_latest".'
                )
            inside = inside[len(inside) - self.max_pairs :]
        kept = {atom.first for atom in (*inside, *current)}
        outside = [atom for run in runs for atom in run if atom.first not in kept and not scene.is_mandatory(atom)]
        yield from self._fold(scene, outside)
        newest = current[-1].first if current else ""
        for atom in (atom for run in runs for atom in run if atom.first in kept and atom.first != newest):
            if self.max_pair_tokens is not None and not scene.is_mandatory(atom):
                yield from _trim(scene, atom, self.max_pair_tokens)

    def _inside(self, runs: list[list[Atom]]) -> list[Atom]:
        pairs = [atom for run in runs for atom in run]
        match self.window:
            case "none":
                return pairs
            case "per_pair":
                return pairs[max(0, len(pairs) - self.keep) :]
            case "per_run":
                used = [run for run in runs if run]
                return [atom for run in used[max(0, len(used) - self.keep) :] for atom in run]

    def _fold(self, scene: Scene, outside: list[Atom]) -> Iterator[FoldItem]:
        because = f"outside the window of tool history ({self.window}, keep {self.keep})"
        if self.mode == "compress":
            for atom in outside:
                yield from compress(scene, atom, "history", because)
            return
        for run in neighbours(scene, outside):
            yield cover(scene, run, "history", because)


def _runs(scene: Scene) -> list[list[Atom]]:
    """Return the pairs of each run, oldest first; the last run is the current one and may be empty."""
    runs: list[list[Atom]] = [[]]
    for atom in scene.view.atoms:
        if atom.kind == "tools":
            runs[-1].append(atom)
        elif any(item.role == "user" and not item.is_silent for item in atom.items):
            runs.append([])
    return runs


def _trim(scene: Scene, atom: Atom, most: int) -> Iterator[PartFold]:
    """Yield folds that cut the largest parts of a pair until it has `most` tokens."""
    if atom.size.tokens <= most:
        return
    parts = [place for place in shown_parts(atom) if isinstance(place[2].part, ToolCall | ToolResult)]
    sizes = [shown.size.tokens for _, _, shown, _ in parts]
    each = share_out(sizes, most - atom.size.tokens + sum(sizes)) - _FRAME_TOKENS
    for item, i, shown, _ in parts:
        if shown.size.tokens > each + _FRAME_TOKENS:
            text = _cut(scene, shown, max(_LEAST_ROOM, each), short_ref(item.id, i))
            because = f"one of the largest parts of a pair of {atom.size.tokens:,} tokens; {most:,} are allowed"
            if text is not None:
                yield scene.fold((item.id, i), text, level="trimmed", policy="history", because=because)


def _cut(scene: Scene, shown: Shown, tokens: int, ref: str) -> str | None:
    match shown.part:
        case ToolCall(_, _, arguments):
            return shorten_arguments(arguments, tokens, scene.count, ref)
        case ToolResult(_, content):
            return head_tail(as_text(content), tokens, scene.count, ref)
        case _:
            return None
