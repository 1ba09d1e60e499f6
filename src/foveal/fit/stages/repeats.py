"""Of the same call made again, only the newest result is shown; the earlier ones point to it."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.clear import LEAST_TOKENS
from foveal.project.atoms import answered
from foveal.text.shorten.reference import reference
from foveal.values.entry import PartFold, ToolResult
from foveal.values.shown import Atom


class Repeats(msgspec.Struct, frozen=True, tag="repeats", tag_field="fold", forbid_unknown_fields=True):
    """Results of an identical earlier call (same tool, same arguments) become references to the newest one."""

    last_resort: bool = False
    finds_stale: ClassVar[bool] = True

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        newest: dict[tuple[str, str], str] = {}
        found: list[PartFold] = []
        for atom in reversed(scene.view.atoms):
            if atom.kind == "tools":
                found.extend(_stale(scene, atom, newest))
        yield from reversed(found)


def _stale(scene: Scene, atom: Atom, newest: dict[tuple[str, str], str]) -> Iterator[PartFold]:
    for call, answer in reversed(list(answered(atom))):
        item = atom.items[answer.item]
        shown, ref = item.shown[answer.part], scene.ref(item.id, answer.part)
        key = call.name, call.arguments
        if not isinstance(shown.part, ToolResult):
            continue
        # A call that failed does not replace what the same call found before.
        newer = newest.setdefault(key, ref) if shown.part.status == "ok" else newest.get(key, ref)
        is_large = shown.size.tokens > LEAST_TOKENS
        if newer != ref and is_large and shown.level != "reference" and not scene.is_mandatory(atom):
            text = reference(f"{call.name} result", shown.raw_tokens, ref, newer)
            because = f"the same call was made again; its newest result is {newer}"
            yield scene.fold((item.id, answer.part), text, level="reference", policy="repeats", because=because)
