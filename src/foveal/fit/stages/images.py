"""The stage `Images`: shows old images by a line with their type and size, and keeps the newest up to a number and size."""

from collections.abc import Iterator

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.checks import check_count
from foveal.project.atoms import shown_parts
from foveal.text.shorten.reference import as_text, reference
from foveal.values.entry import Image, Part, PartFold, ToolResult
from foveal.values.shown import Item, Shown, short_ref


class Images(msgspec.Struct, frozen=True, tag="images", tag_field="fold", forbid_unknown_fields=True):
    """Keeps the newest `keep` images, in `max_bytes` at most; from the first that does not fit on, older ones are folded.

    Images of a mandatory request stay, and count. Those of one result are folded together; its text stays.
    """

    keep: int = 5
    max_bytes: int = 5_000_000
    """Five images of a megabyte: the most that one message may have in other engines."""
    last_resort: bool = False

    def __post_init__(self) -> None:
        check_count(self, "keep", least=0)
        check_count(self, "max_bytes", least=0)

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        number = size = 0
        old: list[PartFold] = []
        for atom in reversed(scene.view.atoms):
            for item, index, shown, _ in reversed(list(shown_parts(atom))):
                images = images_of(shown.part)
                number += len(images)
                size += sum(bytes_of(image) for image in images)
                if images and (number > self.keep or size > self.max_bytes) and not scene.is_mandatory(atom):
                    old.append(_line(scene, item, index, shown))
        yield from reversed(old)


def images_of(part: Part | None) -> list[Image]:
    """Return the images of a part: itself, or those of a result."""
    match part:
        case Image():
            return [part]
        case ToolResult(_, content):
            return [item for item in content if isinstance(item, Image)]
        case _:
            return []


def bytes_of(image: Image) -> int:
    """Return the bytes that an image adds to a request: of its data, or of its address."""
    return len(image.data or b"") or len(image.url or "")


def _line(scene: Scene, item: Item, index: int, shown: Shown) -> PartFold:
    ref = short_ref(item.id, index)
    content = shown.part.content if isinstance(shown.part, ToolResult) else images_of(shown.part)
    lines = [_named(scene, one, ref) if isinstance(one, Image) else as_text((one,)) for one in content]
    level = "reference" if len(lines) == 1 else "trimmed"
    because = "older than the newest images that are kept"
    return scene.fold((item.id, index), "\n".join(lines), level=level, policy="images", because=because)


def _named(scene: Scene, image: Image, ref: str) -> str:
    pixels = f" {image.width}×{image.height}" if image.width and image.height else ""
    what = f"image {image.media_type}{pixels}, {bytes_of(image):,} bytes"
    return reference(what, scene.view.projection.measure.part(image).tokens, ref)
