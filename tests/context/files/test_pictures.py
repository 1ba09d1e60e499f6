"""Images arrive within their provider's limits, or not at all and with the reason."""

import io

import pytest

from foveal import MissingExtra
from foveal.context.files.pictures import bounds_of
from foveal.context.files.read_options import ReadLimits
from foveal.models.counters import image_size, image_tokens

from .made import png

FAMILIES = ["claude", "claude-4", "openai", "gemini", "qwen"]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("family", FAMILIES)
def test_without_pillow_an_image_within_the_limits_goes_as_it_is(read, family):
    """Not a byte is changed, and its tokens are those of the provider's formula."""
    data = png(700, 500)
    found = read("a.png", data, family=family)
    assert (found.image.data, found.image.width, found.image.height) == (data, 700, 500)
    assert found.tokens == image_tokens(family, 700, 500) + len(found.shown) // 4 + 1


@pytest.mark.usefixtures("bare")
def test_without_pillow_a_larger_one_names_the_extra(read):
    """The error says the size, the limit, and the command that helps."""
    with pytest.raises(MissingExtra, match=r"2,000×10 pixels.*1,568×1,568.*pip install '\.\[images\]'"):
        read("a.png", png(2_000, 10))


@pytest.mark.usefixtures("bare")
def test_without_pillow_other_formats_name_the_extra(read):
    """A format that no provider takes has to be converted."""
    with pytest.raises(MissingExtra, match="image/tiff has to be converted"):
        read("a.tiff", b"II*\0" + bytes(100))


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("cut", [20, 60])
def test_without_pillow_a_cut_off_image_is_not_sent(read, cut):
    """One bad image makes every later call fail: it is shown by a line instead."""
    found = read("a.png", png(50, 50)[:cut])
    assert found.image is None
    assert "the image is not shown: it is damaged" in found.shown


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [(4_000, 3_000), (300, 5_000), (6_000, 40), (1_568, 1_568), (1, 3_500)])
def test_with_pillow_images_are_scaled_to_the_limits(read, family, size):
    """Neither side is above its limit, the proportions stay, and what it was is said."""
    pytest.importorskip("PIL")
    found, bounds = read("a.png", png(*size), family=family), bounds_of(family)
    sides = found.image.width, found.image.height
    assert max(sides) <= bounds.long_px
    assert min(sides) <= bounds.short_px
    assert image_size(found.image.data) == sides
    assert abs(sides[0] * size[1] - sides[1] * size[0]) <= max(size) * 2
    if sides != size:
        assert f"scaled from {size[0]:,}×{size[1]:,}" in found.shown


def test_with_pillow_bytes_are_limited_too(read):
    """Noise that no format packs well is made coarser and smaller until it fits."""
    pil = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    pil.effect_noise((1_568, 1_568), 120).convert("RGB").save(out, "PNG")
    found = read("noise.png", out.getvalue())
    assert len(out.getvalue()) > bounds_of("claude").most_bytes
    assert len(found.image.data) <= bounds_of("claude").most_bytes


def photo(orientation, size=(60, 40)):
    pil = pytest.importorskip("PIL.Image")
    image, out = pil.new("RGB", size, (200, 10, 10)), io.BytesIO()
    exif = image.getexif()
    exif[0x0112] = orientation
    exif[0x010E] = "taken at home"
    image.save(out, "JPEG", exif=exif)
    return out.getvalue()


def test_a_camera_s_data_does_not_leave(read):
    """An image with data about its taking is written anew without it."""
    found = read("p.jpg", photo(1))
    assert b"taken at home" not in found.image.data
    assert b"Exif" not in found.image.data


def test_a_turned_photograph_is_sent_upright(read):
    """The direction that the camera noted is applied to the pixels."""
    found = read("p.jpg", photo(6))
    assert (found.image.width, found.image.height) == (40, 60)
    assert "scaled" not in found.shown


def test_with_pillow_other_formats_are_converted(read):
    """A bitmap arrives as a type that every provider takes."""
    pil = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    pil.new("RGB", (10, 10)).save(out, "BMP")
    assert read("a.bmp", out.getvalue()).image.media_type == "image/png"


@pytest.mark.parametrize("damage", [slice(60, None), slice(40, 50)])
def test_with_pillow_a_damaged_image_is_not_sent(read, damage):
    """It is decoded before it is believed, and a line says that it cannot be."""
    pytest.importorskip("PIL")
    data = bytearray(png(300, 300))
    data[damage] = b""
    found = read("a.png", bytes(data))
    assert found.image is None
    assert "cannot be decoded" in found.shown


def test_a_bomb_of_pixels_is_not_opened(read):
    """A few bytes that say a billion pixels cost a line."""
    found = read("a.png", png(40, 40), limits=ReadLimits(megapixels=0))
    assert found.image is None
    assert "40×40 pixels, more than are opened" in found.shown
