"""Images and files, read and written: data URLs, base64, media types."""

import binascii
import re
from base64 import b64decode, b64encode

from foveal.dialects.port import CannotSay
from foveal.dialects.rules import IMAGE_TYPES
from foveal.values.entry import File, Image

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(;[^;,]*)*;base64,", re.IGNORECASE)

_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "json": "application/json",
    "html": "text/html",
}


# Writing


def base64_text(item: Image | File) -> str:
    """Return the bytes of an image or file as base64 text."""
    return b64encode(item.data or b"").decode("ascii")


def write_data_url(item: Image | File) -> str:
    """Return the address of an image or file, or a data URL of its bytes. The caller has checked that it has one of them."""
    return f"data:{item.media_type};base64,{base64_text(item)}" if item.data else item.url or ""


def check_image(image: Image, *, schemes: tuple[str, ...] = ("http://", "https://")) -> None:
    """Raise `CannotSay` for an image that no provider takes."""
    if image.media_type not in IMAGE_TYPES:
        raise CannotSay(f"images of type {image.media_type} are not accepted; convert it to PNG or JPEG")
    if not image.data and not image.url:
        raise CannotSay("the image has neither bytes nor an address")
    if not image.data and not (image.url or "").startswith(schemes):
        raise CannotSay(f"the image's address {image.url!r:.60} is not one of {', '.join(schemes)}; append its bytes")


# Reading


def base64_bytes(text: str) -> bytes | None:
    """Return the bytes of base64 text, or None where a placeholder was recorded instead."""
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """Return media type and bytes of a `data:…;base64,` URL, None for every other URL."""
    match = _DATA_URL.match(url)
    data = base64_bytes(url[match.end() :]) if match else None
    return (match["type"], data) if match and data is not None else None


def image_of_url(url: str) -> Image:
    """Return the image of a data URL by its bytes, any other by its address."""
    found = read_data_url(url)
    if found:
        return Image(found[0] or "image/*", data=found[1])
    return Image(guess_type(url) if not url.startswith("data:") else "image/*", url=url)


def file_of_data(text: str, name: str) -> File | None:
    """Return the file of a data URL or of base64 text; None where a placeholder was recorded instead."""
    media_type, data = read_data_url(text) or ("", base64_bytes(text))
    return File(media_type or guess_type(name, "application/octet-stream"), name, data=data) if data else None


def guess_type(name: str, otherwise: str = "image/*") -> str:
    """Return the media type by the suffix. (`mimetypes` asks the machine, so that a result differs between machines.)"""
    return _TYPES.get(name.partition("?")[0].rpartition(".")[2].lower(), otherwise)
