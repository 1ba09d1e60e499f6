"""Images within the limits of providers: of a type, a size in pixels and a size in bytes that all calls of a session can carry.

An image that a provider refuses makes every later call of the session fail, so that only images known to be whole are put into a
prompt. With Pillow each image is decoded; without it, its frame is checked, and it is sent unchanged or not at all.
"""

from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import msgspec

from foveal.context.files.read_options import ReadOptions
from foveal.models.counters import has_end, image_size
from foveal.values.entry import Image
from foveal.values.errors import MissingExtra

EXTRA = "images"
_SENDABLE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_QUALITIES = (90, 80, 65, 50)
_SHRINK = 0.7
_ATTEMPTS = 8
_DECODED = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "AVIF")
"""The formats that are tried; other formats of the library are not opened for attachments."""


class Bounds(msgspec.Struct, frozen=True):
    """The limits of one image. Above them a provider scales it down itself, or refuses it."""

    long_px: int
    short_px: int
    most_bytes: int

    def scale(self, width: int, height: int) -> float:
        return min(1.0, self.long_px / max(width, height), self.short_px / min(width, height))


_CLAUDE = Bounds(1_568, 1_568, 5_000_000 * 3 // 4)  # 5 MB of base64; above 1 568 px it is scaled down at the provider's
_OPENAI = Bounds(2_048, 768, 20_000_000)  # its tiles are cut from this size
_GEMINI = Bounds(3_072, 3_072, 7_000_000)
_BOUNDS = {
    "claude": _CLAUDE,
    "claude-4": _CLAUDE,
    "anthropic": _CLAUDE,
    "openai": _OPENAI,
    "gemini": _GEMINI,
    "google": _GEMINI,
}
_STRICTEST = Bounds(1_568, 768, _CLAUDE.most_bytes)


class Picture(msgspec.Struct, frozen=True):
    """An image that can be sent, or the reason why there is none."""

    image: Image | None
    note: str = ""


def bounds_of(family: str) -> Bounds:
    return _BOUNDS.get(family, _STRICTEST)


def fit_image(data: bytes, media_type: str, reading: ReadOptions) -> Picture:
    """Return the image within the bounds of its provider. `MissingExtra` if that needs a change and Pillow is missing."""
    bounds, size = bounds_of(reading.family), image_size(data)
    if size and size[0] * size[1] > reading.limits.megapixels * 1_000_000:
        return Picture(None, f"it has {size[0]:,}×{size[1]:,} pixels, more than are opened")
    if find_spec("PIL") is not None:
        return _decoded(data, media_type, reading)
    if size is None and media_type in _SENDABLE:
        return Picture(None, "it is damaged: its size cannot be read")
    if size is None:
        raise MissingExtra(f"An image of type {media_type} has to be converted, which", EXTRA)
    if bounds.scale(*size) < 1 or len(data) > bounds.most_bytes:
        what = f"{size[0]:,}×{size[1]:,} pixels in {len(data):,} bytes"
        limit = f"{bounds.long_px:,}×{bounds.short_px:,} in {bounds.most_bytes:,}"
        raise MissingExtra(f"An image of {what} has to be scaled down to {limit}, which", EXTRA)
    if not has_end(data, media_type):
        return Picture(None, "it is damaged: its end is missing")
    return Picture(Image(media_type, data, width=size[0], height=size[1]))


def _decoded(data: bytes, media_type: str, reading: ReadOptions) -> Picture:
    pil: Any = import_module("PIL.Image")
    bounds = bounds_of(reading.family)
    try:
        with pil.open(BytesIO(data), formats=_DECODED) as opened:
            width, height = opened.size
            if width * height > reading.limits.megapixels * 1_000_000:
                return Picture(None, f"it has {width:,}×{height:,} pixels, more than are opened")
            scale, has_exif = bounds.scale(width, height), bool(opened.info.get("exif"))
            if scale < 1 and media_type == "image/jpeg":
                opened.draft(None, (int(width * scale), int(height * scale)))  # a quarter of the work, or less
            opened.load()
            fits = scale == 1 and len(data) <= bounds.most_bytes and media_type in _SENDABLE
            if fits and not has_exif:
                return Picture(Image(media_type, data, width=width, height=height))
            return _written(_upright(opened), bounds, media_type, original=(width, height))
    except Exception as error:  # a codec may raise anything on hostile bytes
        return Picture(None, f"it cannot be decoded ({type(error).__name__})")


def _upright(opened: Any) -> Any:
    """Return the pixels turned upright, without the data that a camera adds, such as its location."""
    operations: Any = import_module("PIL.ImageOps")
    turned = operations.exif_transpose(opened)
    has_holes = turned.mode in ("RGBA", "LA", "PA") or "transparency" in turned.info
    return turned.convert("RGBA" if has_holes else "RGB")


def _written(pixels: Any, bounds: Bounds, media_type: str, *, original: tuple[int, int]) -> Picture:
    """Return the image within the bounds: scaled once, then coarser and smaller until its bytes fit."""
    pil: Any = import_module("PIL.Image")
    is_drawn = pixels.mode != "RGB" or media_type in ("image/png", "image/gif", "image/bmp")
    width, height = pixels.size
    scale = bounds.scale(width, height)
    for attempt in range(_ATTEMPTS):
        size = max(1, int(width * scale)), max(1, int(height * scale))
        scaled = pixels if size == pixels.size else pixels.resize(size, pil.Resampling.LANCZOS)
        written, data = _encoded(scaled, attempt, as_png=is_drawn)
        if len(data) <= bounds.most_bytes:
            was = "" if sorted(size) == sorted(original) else f"scaled from {original[0]:,}×{original[1]:,}"
            return Picture(Image(written, data, width=size[0], height=size[1]), was)
        is_drawn = pixels.mode != "RGB"  # an image that does not compress as a drawing is a photograph
        if is_drawn or attempt >= len(_QUALITIES) - 1:
            scale *= _SHRINK
    return Picture(None, "it stays too large however it is scaled")


def _encoded(pixels: Any, attempt: int, *, as_png: bool) -> tuple[str, bytes]:
    out = BytesIO()
    if as_png:
        pixels.save(out, "PNG")
        return "image/png", out.getvalue()
    pixels.save(out, "JPEG", quality=_QUALITIES[min(attempt, len(_QUALITIES) - 1)])
    return "image/jpeg", out.getvalue()
