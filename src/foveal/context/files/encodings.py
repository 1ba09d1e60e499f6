"""The decoding of bytes to text, for files that do not declare their encoding."""

import codecs
import re

import msgspec

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\r\f\b\x1b"))
_FEW = 0.01
_LEAST_HAN = 0.7
_HAN = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_LOOKED_AT = 4_096


class Decoded(msgspec.Struct, frozen=True):
    text: str
    encoding: str
    is_guess: bool = False
    """Whether the encoding was inferred from the bytes, and may be wrong."""


def decode_text(data: bytes, *, is_cut: bool = False) -> Decoded | None:
    """Return the text, or None if the bytes are no text. `is_cut` allows an incomplete character at the end."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strictly(data, encoding, is_cut=is_cut)
    if (wide := _wide(data)) is not None:
        return _strictly(data, wide, is_cut=is_cut, is_guess=True)
    if _is_binary(data):
        return None
    return _strictly(data, "utf-8", is_cut=is_cut) or _legacy(data, is_cut=is_cut)


def _strictly(data: bytes, encoding: str, *, is_cut: bool, is_guess: bool = False) -> Decoded | None:
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None
    return Decoded(text, encoding, is_guess)


def _wide(data: bytes) -> str | None:
    """Return the byte order of UTF-16 without a mark: in most texts every other byte is zero, and always the same one."""
    head = data[: _LOOKED_AT & ~1]
    if len(head) < 8:
        return None
    even, odd = head[::2].count(0) / len(head) * 2, head[1::2].count(0) / len(head) * 2
    if odd > 0.6 and even < 0.05:
        return "utf-16-le"
    if even > 0.6 and odd < 0.05:
        return "utf-16-be"
    return None


def _is_binary(data: bytes) -> bool:
    controls = len(data) - len(data.translate(None, _CONTROLS))
    return b"\0" in data or controls > _FEW * len(data)


def _legacy(data: bytes, *, is_cut: bool) -> Decoded | None:
    """Decode as Chinese of the time before UTF-8, if the result reads as such; else as the alphabet of western Europe."""
    chinese = _strictly(data, "gb18030", is_cut=is_cut, is_guess=True)
    if chinese is not None:
        foreign = [char for char in chinese.text[:_LOOKED_AT] if not char.isascii()]
        if foreign and len(_HAN.findall("".join(foreign))) >= _LEAST_HAN * len(foreign):
            return chinese
    return _strictly(data, "cp1252", is_cut=is_cut, is_guess=True)
