"""Properties of every level, for any text."""

import html
import re

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import LEVELS, stand_in, trim
from foveal.text.shorten.html_text import text_lines
from foveal.text.shorten.outline import outline
from foveal.text.shorten.terminal_text import clean_lines

REF = "k3v9x2m1qa"

COUNTERS = {
    "words": lambda text: len(re.findall(r"\w{1,6}|[^\w\s]|\n", text)),
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "characters": lambda text: (len(text) + 3) // 4,
}

FRAGMENTS = (
    "2026-01-02 10:11:12 INFO worker 17 took 31 ms",
    "2026-01-02 10:11:13 ERROR worker 17 failed: no route",
    "\x1b[31mred\x1b[0m and \x1b[1;32mgreen\x1b[0m",
    "downloading 1 %\rdownloading 50 %\rdownloading 100 %",
    "src/net/pool.py:12:def connect(host):",
    "src/net/pool.py-13-    return Pool(host)",
    "./src/net/pool.py",
    "./src/net/deep/er/x.test.ts",
    "drwxr-xr-x 2 root root 4096 Jan  1 10:00 folder",
    "-rw-r--r-- 1 root root  120 Jan  1 10:00 file.txt",
    "├── folder",
    "diff --git a/x.py b/x.py",
    "--- a/x.py",
    "+++ b/x.py",
    "@@ -1,3 +1,4 @@ def f():",
    "-old = 1",
    "+new = 2",
    "def connect(host: str) -> Pool:",
    "    12→func Connect(host string) error {",
    "    return None  # TODO",
    "import os",
    "class Pool:",
    "}",
    "Traceback (most recent call last):",
    '  File "/app/x.py", line 3, in f',
    "\tat com.acme.Main.run(Main.java:12)",
    "ValueError: bad value",
    "id,name,amount",
    "17,anna,12.5",
    "| a | b | c |",
    "|---|---|---|",
    "<html><body><p>Some &amp; text</p>",
    "<script>var x = '</p>';</script><!-- gone -->",
    "<li>item <a href='x'>link</a>",
    '{"id": 17, "tags": ["a", "b"], "score": 1.50}',
    '[{"a": 1}, {"a": -2.5e3}, {"error": "boom"}]',
    "# Heading",
    "A plain sentence about nothing in particular, with a few words.",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 4,
    "deadbeef" * 12,
    "日本語のテキストです。",
    "e\u0301" * 30,
    "👩‍👩‍👧‍👦🇩🇪🇫🇷👍🏽" * 6,
    "\ud800\x00\udfff",
    "[… 12 lines]",
    "",
    " " * 50,
)

lines = st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=60))
repeated = st.builds(lambda line, times: [line] * times, lines, st.integers(1, 30))
documents = st.one_of(
    st.text(max_size=400),
    st.lists(repeated, max_size=30).map(lambda runs: "\n".join(line for run in runs for line in run)),
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.builds(lambda line, times: line * times, lines, st.integers(0, 300)),
)
hints = st.sampled_from(
    ("bash", 'read {"path": "x.py"}', "fetch page.html", "cat data.csv", "rg connect src", "ls -l", "")
)
rooms = st.builds(
    lambda tokens, counter, focus: Allowance(tokens, COUNTERS[counter], REF, focus),
    st.integers(1, 400),
    st.sampled_from(sorted(COUNTERS)),
    st.frozensets(st.sampled_from(("connect", "anna", "x.py", "17", "", "のテ", "boom", "\ud800")), max_size=4),
)


def check(shown: str | None, source: str, room: Allowance) -> None:
    """Within the room, shorter in every way, naming the reference; or nothing at all."""
    if shown is None:
        return
    assert room.count(shown) <= room.tokens
    assert room.count(shown) < room.count(source)
    assert len(shown) < len(source)
    assert any(line.startswith("[") and f"ref {room.ref}]" in line for line in shown.split("\n"))


NOTE = re.compile(
    r"\[(?:…[^\]\n]*|×[\d,]+(?: alike)?|\+[\d,]+ -[\d,]+|[\d,]+ hits|[\d,]+: [^\]\n]*|the longest text in it:"
    rf"|[^\]\n]* ref {REF}|paths|names|values)\]"
)


def pieces(shown: str) -> list[str]:
    """Return the pieces that the stand-in shows between its notes."""
    return [
        piece for line in shown.split("\n") for piece in re.split(r" ?" + NOTE.pattern + r" ?", line) if piece.strip()
    ]


def seen(source: str) -> str:
    """Return the forms of a text that may be shown: itself, as a terminal shows it, and as a browser shows it."""
    page = "\n".join(text_lines(source)[0])
    return "\n".join((source, "\n".join(clean_lines(source)), page, html.unescape(page)))


@given(documents, hints, rooms)
@settings(max_examples=400, deadline=None)
def test_trim_is_shorter_and_within_its_room(text, hint, room):
    """For any text, the stand-in fits, is shorter in tokens and characters, and names its reference."""
    found = trim(text, hint, room)
    check(found[1] if found else None, text, room)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@given(documents, hints, rooms)
@settings(max_examples=80, deadline=None)
def test_each_level_copes_with_texts_of_another_kind(level, text, hint, room):
    """No level raises or breaks its promise on a text that it was not made for."""
    assert level.fits(text, hint) in (True, False)
    check(stand_in(text, room, level.shrink), text, room)


@pytest.mark.parametrize("level", [level for level in LEVELS if level.name != "json"], ids=lambda level: level.name)
@given(documents, rooms)
@settings(max_examples=80, deadline=None)
def test_everything_shown_is_in_the_source(level, text, room):
    """Between its notes a stand-in holds only pieces of its source. (JSON is compared by structure.)"""
    shown = stand_in(text, msgspec.structs.replace(room, guard=str), level.shrink)
    if shown is not None:
        source = seen(text)
        # A piece that begins in the middle of a line says so by a mark.
        assert [piece for piece in pieces(shown) if piece.removeprefix("…") not in source] == []


@given(documents, hints, rooms)
@settings(max_examples=300, deadline=None)
def test_an_outline_holds_only_words_of_its_source(text, hint, room):
    """An outline fits, is shorter than its source, and every term in it is in the source."""
    shown = outline(text, hint, "text", room)
    check(shown, text, room)
    if shown is not None:
        assert shown.count("\n") <= 3
        terms = [term for piece in pieces(shown) for term in piece.split(" ")]
        assert [term for term in terms if term not in text] == []


@given(documents, hints, rooms)
@settings(max_examples=100, deadline=None)
def test_the_same_text_gives_the_same_stand_in(text, hint, room):
    """A stand-in depends on its arguments alone."""
    assert trim(text, hint, room) == trim(text, hint, room)


@given(
    st.integers(1, 200),
    st.sampled_from(("👩‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0302", "👍🏽", "각", "각", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "1\ufe0f\u20e3")),
    st.integers(20, 300),
)
@settings(max_examples=300, deadline=None)
def test_what_is_read_as_one_character_is_not_split(times, character, tokens):
    """Cuts fall between characters as people see them, in long lines and in lists of lines."""
    for text in (character * times * 20, "\n".join([character * times] * 20)):
        found = trim(text, "", Allowance(tokens, COUNTERS["bytes"], REF))
        if found is not None:
            for piece in pieces(found[1]):
                whole = piece.strip().removeprefix("…")
                assert whole == character * (len(whole) // len(character))
