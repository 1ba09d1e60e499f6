"""Level `trimmed`: the two ends of a text and a note between them."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.models.counters import encoding
from foveal.testing.strategies import LONG_TEXTS, ODD_TEXTS
from foveal.text.shorten.head_tail import head_tail

count = encoding("o200k_base").count
NOTE = re.compile(r"\n\[… [\d,]+ of [\d,]+ (?:lines|characters) left out; ref abc123\]\n")
pieces = st.sampled_from(
    (*ODD_TEXTS, "line\n", "e\u0301", "\u0915\u093e", "👍🏽", "\r\n", "0123456789" * 8, *LONG_TEXTS[:3])
)
texts = st.lists(pieces, max_size=60).map("".join)


@settings(deadline=None)
@given(text=texts, tokens=st.integers(1, 400))
def test_it_is_shorter_within_its_tokens_and_verbatim(text: str, tokens: int) -> None:
    """The stand-in is the beginning and the end of the source, is shorter than it, and within its tokens."""
    shown = head_tail(text, tokens, count, "abc123")
    if shown is None:
        return
    assert len(shown) < len(text)
    assert count(shown) <= tokens
    head, tail = next(
        (shown[: m.start()], shown[m.end() :]) for m in NOTE.finditer(shown) if text.startswith(shown[: m.start()])
    )
    assert text.startswith(head)
    assert text.endswith((tail, tail.removeprefix("…")))  # the mark of a line that is cut


@settings(deadline=None)
@given(
    base=st.sampled_from(("e\u0301\u0327", "\u0915\u093e", "👩‍👩‍👧‍👦", "👍🏽", "ñ")),
    times=st.integers(100, 400),
    tokens=st.integers(40, 200),
)
def test_it_does_not_split_what_is_read_as_one_character(base: str, times: int, tokens: int) -> None:
    """Neither end begins or breaks off inside a character with its marks, joiners and skin tones."""
    shown = head_tail(base * times, tokens, count, "abc123")
    if shown is None:
        return
    head, tail = NOTE.split(shown)
    tail = tail.removeprefix("…")
    assert len(head) % len(base) == 0
    assert len(tail) % len(base) == 0
    assert not tail or not unicodedata.combining(tail[0])


def test_it_counts_a_bounded_amount_of_text() -> None:
    """The counter sees only ends and stand-ins: a text that is ten times as long does not cost ten times as much."""
    counted: list[int] = []

    def counting(text: str) -> int:
        counted.append(len(text))
        return count(text)

    work = []
    for lines in (2_000, 20_000):
        counted.clear()
        assert head_tail("some line of a log\n" * lines, 300, counting, "abc123")
        work.append(sum(counted))
    assert work[1] <= work[0] * 1.2


@pytest.mark.parametrize("tokens", range(20, 200, 3))
def test_a_note_of_an_earlier_cut_is_shown_whole_or_not_at_all(tokens: int) -> None:
    """Half a reference leads nowhere: where a cut would go through one, its note gives way."""
    note = "[text in long lines: 3,500 characters, 1 lines, sha256 16757242b4c7; ref qglohtweiv.2]"
    for text in (f"{note}\n{'word ' * 400}", f"{'word ' * 400}\n{note}", f"{'word ' * 40}{note}{' word' * 400}"):
        shown = head_tail(text, tokens, len, "abcdefghij")
        assert shown is None or set(re.findall(r"ref ([\w.-]+)", shown)) <= {"qglohtweiv.2", "abcdefghij"}
        assert shown is None or shown.count("ref q") == shown.count(note)
