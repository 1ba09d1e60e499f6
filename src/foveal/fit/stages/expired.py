"""The stage `Expired`: turns results whose time has passed into references, wherever they are."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from foveal.fit.scene import Scene
from foveal.project.atoms import answered
from foveal.text.shorten.reference import result_reference
from foveal.values.entry import PartFold, ToolResult
from foveal.values.shown import Atom, short_ref


class Expired(msgspec.Struct, frozen=True, tag="expired", tag_field="fold", forbid_unknown_fields=True):
    """Folds results whose retention keeps them for `ttl_turns` user messages, after as many."""

    last_resort: bool = False
    finds_stale: ClassVar[bool] = True

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        turns = 0
        found: list[PartFold] = []
        for atom in reversed(scene.view.atoms):
            if not scene.is_mandatory(atom):
                found.extend(_due(scene, atom, turns))
            turns += atom.kind == "user" and atom.items[0].role == "user"
        yield from reversed(found)


def _due(scene: Scene, atom: Atom, turns: int) -> Iterator[PartFold]:
    for call, answer in answered(atom):
        item = atom.items[answer.item]
        shown = item.shown[answer.part]
        if shown.ttl_turns is None or turns < shown.ttl_turns or not isinstance(shown.part, ToolResult):
            continue
        if shown.level == "reference":
            continue
        ref = short_ref(item.id, answer.part)
        text = result_reference(shown.part, call.name, shown.raw_tokens, ref, hint=shown.hint)
        because = f"kept for {shown.ttl_turns} turns, and {turns} have passed"
        yield scene.fold((item.id, answer.part), text, level="reference", policy="expired", because=because)
