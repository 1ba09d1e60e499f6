"""Images and files, read and written: data URLs, base64, media types, and what a provider takes of them.

A provider that refuses an image refuses every later call that holds it. So each image and file is looked at once, where it is
projected: its type by its first bytes, its size, its pixels, its address. One that the provider would refuse is shown by a line
that says why. Nothing is decoded and nothing is scaled here: that depends on the version of a library, and the same log must give
the same prompt everywhere. `session.context.attach` scales before the log keeps the image.
"""

import binascii
import re
from base64 import b64decode, b64encode

import msgspec

from foveal.dialects.rules import IMAGE_TYPES
from foveal.models.counters import has_end, image_size, image_type
from foveal.text.guard import safe_name
from foveal.values.budget import MAX_BYTES
from foveal.values.entry import File, Image, Role, Text

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(;[^;,]*)*;base64,", re.IGNORECASE)

_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "ico": "image/x-icon",
    "avif": "image/avif",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "json": "application/json",
    "html": "text/html",
}

BODY_BYTES = MAX_BYTES * 7 // 10
"""The largest file whose base64, a third longer, leaves a fifteenth of a request body for everything else."""

_PDF = "application/pdf"
_PDF_HEAD = 1_024
"""Bytes within which readers look for the mark of a PDF."""
_NAME_CHARS = 120


class MediaLimits(msgspec.Struct, frozen=True):
    """Limits of one provider for images and files, as its documentation says."""

    images: frozenset[str] = IMAGE_TYPES
    """Media types of images."""
    image_bytes: int = BODY_BYTES
    side_px: int | None = None
    """Most pixels of one side; None where no limit is documented."""
    pixels: int = 178_956_970
    """Most pixels of an image, where the sides have no limit: the usual decoders refuse more as an attack."""
    files: tuple[str, ...] = (_PDF,)
    """Media types of files that travel as bytes, or the beginnings of such types."""
    no_files: tuple[str, ...] = ()
    """Exceptions to `files`."""
    file_urls: tuple[str, ...] = ()
    """The same for files that are named by their address."""
    schemes: tuple[str, ...] = ("http://", "https://")


def fit_media(item: Image | File, limits: MediaLimits, role: Role) -> tuple[Image | File | Text, str]:
    """Return an image or a file as this provider takes it, or the line in its place, and the reason for a change.

    An image whose bytes are of another type than it says is sent as what it is.
    """
    known = image_type(item.data) if isinstance(item, Image) and item.data else None
    if reason := _objection(item, limits, role, known):
        return Text(_line(item, reason)), reason
    if known and known != item.media_type:
        label = safe_name(item.media_type, _NAME_CHARS) or "nothing"
        return msgspec.structs.replace(item, media_type=known), f"said to be {label}; its bytes are {known}"
    return item, ""


def _objection(item: Image | File, limits: MediaLimits, role: Role, known: str | None) -> str:
    """Return why the provider would refuse this; empty if it takes it. `known` is the type that an image's bytes tell."""
    if role == "assistant":
        return f"a reply to be sent back cannot hold {'an image' if isinstance(item, Image) else 'a file'}"
    if not item.data:
        return _address_objection(item, limits)
    if isinstance(item, File):
        return _file_objection(item, limits)
    names = ", ".join(sorted(name.removeprefix("image/") for name in limits.images))
    if known not in limits.images:
        return f"it is {known or 'no image that can be read'}; {names} are taken"
    if not has_end(item.data, known or ""):
        return "it is damaged: its end is missing"
    size = image_size(item.data)
    if size is None and known in IMAGE_TYPES:
        return "it is damaged: its size cannot be read"
    return _size_objection(len(item.data), size or (1, 1), limits)


def _size_objection(size_bytes: int, sides: tuple[int, int], limits: MediaLimits) -> str:
    width, height = sides
    if limits.side_px is not None and max(sides) > limits.side_px:
        return f"it has {width:,}×{height:,} pixels; {limits.side_px:,} a side are the most; scale it down"
    if width * height > limits.pixels:
        return f"it has {width:,}×{height:,} pixels, more than decoders open; scale it down"
    if size_bytes > limits.image_bytes:
        return f"it has {size_bytes:,} bytes; {limits.image_bytes:,} are the most; scale it down"
    return ""


def _address_objection(item: Image | File, limits: MediaLimits) -> str:
    if not item.url:
        return "it has neither bytes nor an address"
    if not item.url.startswith(limits.schemes):
        return f"its address does not begin with {' or '.join(limits.schemes)}; append its bytes"
    if isinstance(item, File):
        is_taken = bool(limits.file_urls) and item.media_type.startswith(limits.file_urls)
        return "" if is_taken else "a file of this type cannot be given by its address"
    # The type of an address is a guess by its suffix, and most formats do not send it.
    is_known = item.media_type not in ("", "image/*")
    return (
        f"images of type {item.media_type} are not taken" if is_known and item.media_type not in limits.images else ""
    )


def _file_objection(file: File, limits: MediaLimits) -> str:
    data = file.data or b""
    if not file.media_type.startswith(limits.files) or (
        limits.no_files and file.media_type.startswith(limits.no_files)
    ):
        return "files of this type are not taken; append its text"
    if len(data) > BODY_BYTES:
        return f"it has {len(data):,} bytes; {BODY_BYTES:,} are the most"
    if file.media_type == _PDF and b"%PDF" not in data[:_PDF_HEAD]:
        return "it is no PDF"
    return ""


def _line(item: Image | File, reason: str) -> str:
    """Return the one line in place of an image or a file."""
    what = f"image {item.media_type}" if isinstance(item, Image) else f"file {item.name} {item.media_type}"
    size = f", {len(item.data):,} bytes" if item.data else ""
    return f"[{safe_name(what, _NAME_CHARS)}{size}; not sent: {safe_name(reason, _NAME_CHARS)}]"


# Writing


def base64_text(item: Image | File) -> str:
    """Return the bytes of an image or file as base64 text."""
    return b64encode(item.data or b"").decode("ascii")


def write_data_url(item: Image | File) -> str:
    """Return the address of an image or file, or a data URL of its bytes. The caller has checked that it has one of them."""
    return f"data:{item.media_type};base64,{base64_text(item)}" if item.data else item.url or ""


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
