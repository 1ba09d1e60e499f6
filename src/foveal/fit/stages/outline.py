"""The stage `Outline`: shows old results that are still whole by their kind, size and identifiers."""

from collections.abc import Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.checks import check_shortens
from foveal.fit.stages.shorten import LEAST_TOKENS
from foveal.project.atoms import hint_of, shown_parts
from foveal.text import shorten
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.outline import outline
from foveal.text.shorten.reference import as_text
from foveal.values.entry import PartFold, ToolResult
from foveal.values.shown import short_ref


class Outline(msgspec.Struct, frozen=True, tag="outline", tag_field="fold", forbid_unknown_fields=True):
    """Outlines results above `over` of the limit in `to` of it, except in the newest `keep` of it."""

    over: float = 0.004
    to: float = 0.002
    keep: float = 0.25
    last_resort: bool = False

    def __post_init__(self) -> None:
        check_shortens(self)

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        over, to = (max(LEAST_TOKENS, int(scene.limit * share)) for share in (self.over, self.to))
        for atom in scene.foldable(self.keep):
            for item, i, shown, call in shown_parts(atom):
                if shown.level != "full" or shown.size.tokens <= over or not isinstance(shown.part, ToolResult):
                    continue
                text, hint = as_text(shown.part.content), hint_of(call)
                kind = shorten.kind_of(text, hint)
                guard = scene.view.projection.guard.live
                line = outline(text, hint, kind, Allowance(to, scene.count, short_ref(item.id, i), guard=guard))
                if line is not None:
                    because = f"{shown.size.tokens:,} tokens, and no longer new"
                    yield scene.fold((item.id, i), line, level="outline", policy="outline", because=because)
