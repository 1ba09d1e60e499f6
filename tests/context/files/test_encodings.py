"""Bytes that are text are read as that text; others are told apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.context.files.encodings import decode_text


def decoded(data, *, is_cut=False):
    found = decode_text(data, is_cut=is_cut)
    assert found is not None
    return found


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("text", ["plain words", "Zürich, naïve café", "中文文本", "emoji 😀 here"])
def test_marked_and_common_encodings_are_read(text, encoding):
    """What is written in Unicode comes back as it was, and is no guess."""
    found = decoded(text.encode(encoding))
    assert (found.text, found.is_guess) == (text, False)


def test_old_chinese_text_is_read_as_such():
    """Text of the encodings before Unicode is inferred, and said to be a guess."""
    text = "这是一个很长的中文文件,里面有很多内容。" * 5
    found = decoded(text.encode("gb18030"))
    assert (found.text, found.is_guess) == (text, True)


def test_old_western_text_is_read_as_such():
    """Accents of one byte make a western text, not a Chinese one."""
    assert decoded("naïve café à la carte, Übergröße".encode("cp1252")).text == "naïve café à la carte, Übergröße"


@pytest.mark.parametrize("data", [bytes(100), b"abc\0def", bytes(range(32)) * 10, b"\x81\x8d\x8f\x90\x9d" * 9])
def test_what_is_no_text_is_none(data):
    """Zeros and control characters are not writing."""
    assert decode_text(data) is None


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_character_that_is_cut_off_is_left_out(cut):
    """The beginning of a file may end within a character."""
    found = decoded("abc 😀".encode()[:-cut], is_cut=True)
    assert (found.text, found.encoding) == ("abc ", "utf-8")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_of_unicode_is_read(text):
    """Whatever can be written in UTF-8 comes back as it was."""
    assert decoded(text.encode()).text == text.removeprefix("\ufeff")


@given(st.binary(max_size=500))
def test_any_bytes_are_decoded_or_not(data):
    """Nothing is raised."""
    found = decode_text(data)
    assert found is None or isinstance(found.text, str)
