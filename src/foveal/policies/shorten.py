"""Large old results and arguments are shown by their head and tail."""

from collections.abc import Iterator

import msgspec

from foveal.core.entry import PartFold, ToolCall, ToolResult
from foveal.core.fit import Scene
from foveal.core.view import Item, Shown
from foveal.levels.arguments import shorten_arguments
from foveal.levels.head_tail import head_tail
from foveal.levels.reference import as_text

LEAST_TOKENS = 60
"""Below this, head, note and tail are hardly shorter than the text."""


class Shorten(msgspec.Struct, frozen=True, tag="shorten", tag_field="fold", forbid_unknown_fields=True):
    """Parts above `over` of the limit are cut to `to` of it, except in the newest `keep` of it."""

    over: float = 0.02
    to: float = 0.01
    keep: float = 0.25
    last_resort: bool = False

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        over, to = (max(LEAST_TOKENS, int(scene.limit * share)) for share in (self.over, self.to))
        for atom in scene.foldable(self.keep):
            for item in atom.items:
                for i, shown in enumerate(item.shown):
                    if shown.level == "full" and shown.size.tokens > over:
                        yield from _shorten(scene, item, i, shown, to)


def _shorten(scene: Scene, item: Item, index: int, shown: Shown, to: int) -> Iterator[PartFold]:
    ref = scene.ref(item.id, index)
    match shown.part:
        case ToolResult(_, content):
            text = head_tail(as_text(content), to, scene.count, ref)
        case ToolCall(_, _, arguments):
            text = shorten_arguments(arguments, to, scene.count, ref)
        case _:
            return
    if text is not None:
        because = f"{shown.size.tokens:,} tokens, more than a part may keep once it is old"
        yield scene.fold((item.id, index), text, level="trimmed", policy="shorten", because=because)
