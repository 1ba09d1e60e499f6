"""Images and files as the providers' formats spell them."""

from base64 import b64encode
from collections.abc import Sequence

from foveal.dialects.port import CannotSay
from foveal.values.entry import File, Image, Part, Text

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def base64_of(item: Image | File) -> str:
    return b64encode(item.data or b"").decode("ascii")


def data_url(item: Image | File) -> str:
    """The item's own address, or its bytes as an address."""
    if item.data:
        return f"data:{item.media_type};base64,{base64_of(item)}"
    if item.url:
        return item.url
    raise CannotSay(f"the {item.media_type} has neither bytes nor an address")


def check_image(image: Image, *, schemes: tuple[str, ...] = ("http://", "https://")) -> None:
    if image.media_type not in IMAGE_TYPES:
        raise CannotSay(f"images of type {image.media_type} are not accepted; convert it to PNG or JPEG")
    if not image.data and not image.url:
        raise CannotSay("the image has neither bytes nor an address")
    if not image.data and not (image.url or "").startswith(schemes):
        raise CannotSay(f"the image's address {image.url!r:.60} is not one of {', '.join(schemes)}; append its bytes")


def labelled(parts: Sequence[Part]) -> list[Part]:
    """A system message among the others, for formats in which only the user can speak there."""
    first = parts[0]
    return [Text(f"[system] {first.text}") if isinstance(first, Text) else first, *parts[1:]]
