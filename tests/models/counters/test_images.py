"""Image sizes from headers, and tokens from sizes."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foveal.models.counters import image_size, image_tokens

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + b"\x08\x02\x00\x00\x00"
GIF = b"GIF89a" + struct.pack("<HH", 640, 480) + b"\x00\x00\x00"
JPEG = (
    b"\xff\xd8"
    + b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\x00" + bytes(9)
    + b"\xff\xff"  # padding before a marker is legal
    + b"\xc4" + struct.pack(">H", 4) + b"\x00\x00"  # a Huffman table is not a frame
    + b"\xff\xc2" + struct.pack(">HBHH", 17, 8, 480, 640) + bytes(10)
)  # fmt: skip
WEBP_LOSSY = (
    b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00"
    + b"\x00\x00\x00\x9d\x01\x2a"
    + struct.pack("<HH", 640 | 0x4000, 480)
)
WEBP_LOSSLESS = b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f" + struct.pack("<I", 639 | 479 << 14)
WEBP_EXTENDED = (
    b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00"
    + bytes(4)
    + (639).to_bytes(3, "little")
    + (479).to_bytes(3, "little")
)
IMAGES = {
    "png": PNG,
    "gif": GIF,
    "jpeg": JPEG,
    "webp lossy": WEBP_LOSSY,
    "webp lossless": WEBP_LOSSLESS,
    "webp extended": WEBP_EXTENDED,
}


@pytest.mark.parametrize("data", IMAGES.values(), ids=IMAGES.keys())
def test_the_size_is_read_from_the_header(data: bytes) -> None:
    """Each format says 640 × 480 in its own way."""
    assert image_size(data) == (640, 480)


@pytest.mark.parametrize("data", IMAGES.values(), ids=IMAGES.keys())
def test_a_cut_header_has_no_size_and_does_not_raise(data: bytes) -> None:
    """Cut anywhere, the answer is the size or nothing."""
    assert {image_size(data[:length]) for length in range(len(data))} <= {None, (640, 480)}


@given(st.binary(max_size=200), st.sampled_from([b"", *(data[:16] for data in IMAGES.values())]))
@example(b"", b"\xff\xd8\xff\xe0\x00\x00")
@example(b"", PNG[:16] + bytes(8))
def test_no_bytes_raise(tail: bytes, head: bytes) -> None:
    """Any bytes give a positive size or None, in bounded time."""
    size = image_size(head + tail)
    assert size is None or (size[0] > 0 and size[1] > 0)


@pytest.mark.parametrize(
    ("family", "width", "height", "tokens"),
    [
        ("claude-4", 750, 1_000, 1_000),
        ("claude-4", 4_000, 3_000, 1_600),
        ("claude-4", None, None, 1_600),
        ("claude", 2_000, 1_500, 4_000),
        ("anthropic", 8_000, 8_000, 5_000),
        ("openai", 512, 512, 255),
        ("openai", 1_024, 1_024, 765),
        ("openai", 2_048, 4_096, 1_105),
        ("openai", 10, 5_000, 765),
        ("openai", None, 100, 1_445),
        ("gemini", 384, 384, 258),
        ("gemini", 768, 768, 1_032),
        ("google", 1_536, 1_536, 1_032),
        ("gemini", None, None, 1_548),
        ("unknown", 1_024, 1_024, 1_399),
        ("unknown", 0, 0, 5_000),
    ],
)
def test_tokens_follow_the_family_formula(family: str, width: int | None, height: int | None, tokens: int) -> None:
    """Provider formulas at sizes worked out by hand; unknown sizes and families take the dear side."""
    assert image_tokens(family, width, height) == tokens


@given(st.sampled_from(["openai", "claude", "claude-4"]), st.integers(1, 20_000), st.integers(1, 20_000))
def test_the_unknown_size_is_never_cheaper(family: str, width: int, height: int) -> None:
    """For families with a cap, an image of unknown size counts at least as much as any other."""
    assert 1 <= image_tokens(family, width, height) <= image_tokens(family, None, None)
