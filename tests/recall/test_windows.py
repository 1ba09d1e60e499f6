"""Windows of a text that comes in blocks."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from foveal.recall.text_blocks import BLOCK_BYTES, decoded
from foveal.recall.windows import TextWindow, character_window, line_window

BREAKS = st.text(alphabet="ab\n\r\f\u0085\u2028\0é\ud800", max_size=60)


def blocks(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


def lines(text: str) -> list[str]:
    """The lines as the port counts them, each with its break."""
    found = [line + "\n" for line in text.split("\n")]
    found[-1] = found[-1].removesuffix("\n")
    return found if found[-1] else found[:-1]


@given(BREAKS, st.lists(st.integers(0, 99), max_size=4), st.integers(1, 5), st.integers(1, 9))
@example("\n\n", [1], 1, 1)
@example("long line without a break", [3], 2, 4)
def test_line_windows_side_by_side_are_the_text(text: str, cuts: list[int], limit: int, most: int) -> None:
    """However the text is cut into blocks, whatever the limits, nothing is lost or given twice."""
    whole, got, offset = lines(text), "", 0
    while offset < len(whole):
        window = line_window(blocks(text, cuts), offset, limit, most)
        assert window.total == len(whole)
        assert len(window.text) <= most
        got += window.text
        if window.cut_at is not None:
            assert window.cut_at == len(got)
            got += whole[offset][len(window.text) :]
            assert window.count == 1
        else:
            assert window.text == "".join(whole[offset : offset + window.count])
        assert 1 <= window.count <= limit
        offset += window.count
    assert got == text


@given(BREAKS, st.lists(st.integers(0, 99), max_size=4), st.integers(0, 70), st.integers(1, 30))
def test_a_character_window_is_a_slice(text: str, cuts: list[int], offset: int, limit: int) -> None:
    """Characters are those of a Python string."""
    expected = text[offset : offset + limit]
    assert character_window(blocks(text, cuts), offset, limit) == TextWindow(expected, len(expected), len(text))


def test_only_a_line_feed_ends_a_line() -> None:
    """Carriage returns, form feeds, NEL and Unicode's separators are characters of their line."""
    text = "a\r\nb\rc\x0bd\x0ce\x85f\u2028g\nh"
    assert line_window([text], 1, 1, 99).text == "b\rc\x0bd\x0ce\x85f\u2028g\n"
    assert line_window([text], 0, 9, 99).total == 3


@given(st.text(alphabet="aé汉😀\ud800\udfff\0\n", max_size=40), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_chunks_of_any_size_decode_to_the_text(text: str, sizes: list[int]) -> None:
    """A character that is cut by a chunk's end is whole again, lone surrogates included."""
    data = text.encode("utf-8", "surrogatepass")
    chunks: list[bytes] = []
    while data:
        size = sizes[len(chunks) % len(sizes)]
        chunks, data = [*chunks, data[:size]], data[size:]
    assert "".join(decoded(chunks)) == text


def test_a_character_across_two_blocks_is_whole() -> None:
    """Blocks are cut by bytes; the bytes of a character that belong together are kept together."""
    for character in ("é", "汉", "😀", "\ud800"):
        for shift in range(4):
            text = "x" * (BLOCK_BYTES - shift) + character * 3 + "y" * BLOCK_BYTES
            assert "".join(decoded([text.encode("utf-8", "surrogatepass")])) == text


def test_bytes_that_are_no_text_are_replaced_the_same_way_however_they_are_chunked() -> None:
    """The same artifact gives the same text from every store."""
    data = bytes(range(256)) * 3_000 + "汉\ud800".encode("utf-8", "surrogatepass") * 1_000
    whole = "".join(decoded([data]))
    assert whole == "".join(decoded(data[at : at + 7_777] for at in range(0, len(data), 7_777)))
    assert "\ufffd" in whole
    assert "汉" in whole
