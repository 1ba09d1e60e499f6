"""The stage `Clear`: shows old results, images and files by one line with their reference."""

from collections.abc import Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.checks import check_shares
from foveal.project.atoms import shown_parts
from foveal.text.shorten.arguments import shorten_arguments
from foveal.text.shorten.reference import reference, result_reference
from foveal.values.entry import File, Image, Opaque, PartFold, ToolCall, ToolResult
from foveal.values.shown import Item, Shown, short_ref

LEAST_TOKENS = 40
"""A reference is about 20 tokens; a result of twice that is not worth moving."""


class Clear(msgspec.Struct, frozen=True, tag="clear", tag_field="fold", forbid_unknown_fields=True):
    """Turns results into references, except in the newest `keep` of the limit."""

    keep: float = 0.25
    last_resort: bool = False

    def __post_init__(self) -> None:
        check_shares(self, "keep")

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        for atom in scene.foldable(self.keep):
            for item, i, shown, call in shown_parts(atom):
                yield from clear_part(scene, item, i, shown, call)


def clear_part(scene: Scene, item: Item, index: int, shown: Shown, call: ToolCall | None) -> Iterator[PartFold]:
    """Yield the fold of a result, an image, a file or long arguments into a reference; nothing for other parts."""
    if shown.level == "reference" or not (_is_large(shown) or _is_half_of_large(item, shown)):
        return
    ref, because = short_ref(item.id, index), "older than the newest results that are kept"
    match shown.part:
        case ToolResult():
            text = result_reference(shown.part, call.name if call else "", shown.raw_tokens, ref)
        case Image(media_type):
            text = reference(f"image {media_type}", shown.raw_tokens, ref)
        case File(_, file_name):
            text = reference(f"file {file_name}", shown.raw_tokens, ref)
        case ToolCall(_, _, arguments):
            text = shorten_arguments(arguments, LEAST_TOKENS, scene.count, ref)
        case Opaque():
            text = ""
        case _:
            return
    if text is not None:
        yield scene.fold((item.id, index), text, level="reference", policy="clear", because=because)


def _is_large(shown: Shown) -> bool:
    return shown.size.tokens > LEAST_TOKENS or shown.size.images > 0


def _is_half_of_large(item: Item, shown: Shown) -> bool:
    """Return whether a provider's own part refers to a large one (a search and its findings): they are folded together."""
    return isinstance(shown.part, Opaque) and any(isinstance(s.part, Opaque) and _is_large(s) for s in item.shown)
