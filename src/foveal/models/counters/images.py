"""Images: their cost in tokens; their type and their size in pixels from their first bytes."""

from collections.abc import Callable
from math import ceil
from typing import Literal

_CLAUDE_PIXELS_PER_TOKEN = 750
_CLAUDE_4_TOKENS = 1_600  # through Claude 4.6, larger images are scaled down to about this
_CLAUDE_TOKENS = 5_000  # from 4.7 on images keep up to 3.75 megapixels
_OPENAI_BASE_TOKENS, _OPENAI_TILE_TOKENS, _OPENAI_TILE_PX = 85, 170, 512
_OPENAI_LONG_PX, _OPENAI_SHORT_PX = 2_048, 768
_GEMINI_TILE_TOKENS, _GEMINI_SMALL_PX = 258, 384
_GEMINI_TILE_PX = (256, 768)

# For an image whose size cannot be read: the largest cost of the families with a cap, and for Gemini, which has none,
# that of a photograph of 3:2, at any resolution up to 1 728 × 1 152.
_UNKNOWN_TOKENS = {"claude": _CLAUDE_TOKENS, "claude-4": _CLAUDE_4_TOKENS, "openai": 1_445, "gemini": 1_548}
_ALIASES = {"anthropic": "claude", "google": "gemini"}


def image_tokens(family: str, width: int | None, height: int | None) -> int:
    """Return the tokens of one image for a model family (`ModelCounter.family`) or provider; never below one token.

    Small OpenAI models that bill by patch can lie above their tile formula. A family without a known formula is counted as
    the dearest of the known ones.
    """
    key = _ALIASES.get(family, family)
    if width is None or height is None or width <= 0 or height <= 0:
        return _UNKNOWN_TOKENS.get(key, _CLAUDE_TOKENS)
    formula = _FORMULAS.get(key)
    if formula is None:
        return max(each(width, height) for each in _FORMULAS.values())
    return formula(width, height)


def _claude(width: int, height: int) -> int:
    return min(ceil(width * height / _CLAUDE_PIXELS_PER_TOKEN), _CLAUDE_TOKENS)


def _claude_4(width: int, height: int) -> int:
    return min(ceil(width * height / _CLAUDE_PIXELS_PER_TOKEN), _CLAUDE_4_TOKENS)


def _openai(width: int, height: int) -> int:
    scale = min(1.0, _OPENAI_LONG_PX / max(width, height))
    scale *= min(1.0, _OPENAI_SHORT_PX / (min(width, height) * scale))
    # Rounded before the ceiling: 768 scaled by 2/3 and back must not become a tile more.
    tiles = [ceil(round(side * scale, 6) / _OPENAI_TILE_PX) for side in (width, height)]
    return _OPENAI_BASE_TOKENS + _OPENAI_TILE_TOKENS * tiles[0] * tiles[1]


def _gemini(width: int, height: int) -> int:
    if max(width, height) <= _GEMINI_SMALL_PX:
        return _GEMINI_TILE_TOKENS
    smallest, largest = _GEMINI_TILE_PX
    tile_px = min(largest, max(smallest, int(min(width, height) / 1.5)))
    return _GEMINI_TILE_TOKENS * ceil(width / tile_px) * ceil(height / tile_px)


_FORMULAS: dict[str, Callable[[int, int], int]] = {
    "claude": _claude,
    "claude-4": _claude_4,
    "openai": _openai,
    "gemini": _gemini,
}


_HEIF_BRANDS = {b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif", b"msf1": "image/heif"}


def image_type(data: bytes) -> str | None:
    """Return the media type that the first bytes of an image tell; None for bytes that are no image that a provider takes."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return _HEIF_BRANDS.get(data[8:12]) if data[4:8] == b"ftyp" else None


def has_end(data: bytes, media_type: str) -> bool:
    """Return whether the end of an image of this type is there: the usual damage is a cut-off upload."""
    match media_type:
        case "image/png":
            return b"IEND" in data[-64:]
        case "image/jpeg":
            return b"\xff\xd9" in data[-4_096:]
        case "image/gif":
            return b"\x3b" in data[-64:]
        case "image/webp":
            return len(data) >= 8 + int.from_bytes(data[4:8], "little")
        case _:
            return True


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) in pixels of a PNG, JPEG, GIF or WebP, or None for anything else and anything damaged."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        size = _pair(data[16:24], 4, "big")
    elif data[:6] in (b"GIF87a", b"GIF89a"):
        size = _pair(data[6:10], 2, "little")
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp_size(data)
    else:
        return None
    return size if size and size[0] > 0 and size[1] > 0 else None


def _pair(data: bytes, width_bytes: int, order: Literal["big", "little"]) -> tuple[int, int] | None:
    if len(data) < 2 * width_bytes:
        return None
    first, second = data[:width_bytes], data[width_bytes : 2 * width_bytes]
    return int.from_bytes(first, order), int.from_bytes(second, order)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walk the segments to the first start-of-frame, which holds height before width."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # segments without a length
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            size = _pair(data[at + 5 : at + 9], 2, "big")
            return (size[1], size[0]) if size else None
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        size = _pair(data[24:30], 3, "little")
        return (size[0] + 1, size[1] + 1) if size else None
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        size = _pair(data[26:30], 2, "little")
        return (size[0] & 0x3FFF, size[1] & 0x3FFF) if size else None  # the two upper bits are a scaling hint
    if kind == b"VP8L" and data[20:21] == b"\x2f" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None
