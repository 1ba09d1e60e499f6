"""Images and files as the providers' formats spell them."""

from base64 import b64encode

from foveal.core.entry import File, Image
from foveal.dialects.port import CannotSay

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


def check_image(image: Image) -> None:
    if image.media_type not in IMAGE_TYPES:
        raise CannotSay(f"images of type {image.media_type} are not accepted; convert it to PNG or JPEG")
    if not image.data and not image.url:
        raise CannotSay("the image has neither bytes nor an address")
