"""Neutralising: reversible for every text, nothing done to ordinary ones."""

import json
import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from foveal.text.guard import neutralise, neutralise_joined, restore, tags
from foveal.text.guard.normalise import normalise

from .parser import found

_PIECES = (
    "< > [ ] / | : ; ~ ~~ & % \\ \\\\ # lt; amp; &lt &#60 &#6 0; x3c %3C %25 25 3c u003c \\u00 5c \\n \\r \n \r \x1b [0m \x1b[~ "
    "foveal : fov eal system - _ reminder s im_start |> INST ref k1] … 12 Human Assistant Human: pinned] ＜ ‹ ｆ о ﬆ ß ￼ "
    "\u200b \u202e \u0338 \u00a0 \u2028 \ud800 \udc00 \0 \U000e0041 <b> <!--x-->"
)
PIECES = st.sampled_from(_PIECES.split(" "))
HOSTILE = st.lists(PIECES, max_size=14).map("".join)
ANYTHING = st.text(st.characters(), max_size=40)  # lone surrogates included


@settings(max_examples=1_500, deadline=None)
@given(HOSTILE | ANYTHING)
@example("&#60&#102;oveal:")
@example("<~&#126;foveal:x>")
@example("\x1b[~INST]")
@example("~Human: x\n~~Human: y")
def test_restore_undoes_neutralise(text: str) -> None:
    """Every text comes back from neutralising to the character."""
    assert restore(neutralise(text)) == text


@settings(max_examples=600, deadline=None)
@given(HOSTILE)
def test_a_neutralised_text_is_read_alike_and_holds_nothing_live(text: str) -> None:
    """Marks are no part of what is read, so the same forms are found, all of them broken."""
    safe = neutralise(text)
    assert normalise(safe).text == normalise(text).text
    assert tags(safe) == []
    assert tags(neutralise(safe)) == []


@settings(max_examples=400, deadline=None)
@given(HOSTILE)
def test_what_has_no_form_is_the_same_object(text: str) -> None:
    """Identity tells that nothing was done."""
    assert (neutralise(text) is text) == (not tags(text) and restore(text) is text)


@settings(max_examples=400, deadline=None)
@given(
    st.recursive(HOSTILE, lambda v: st.lists(v, max_size=3) | st.dictionaries(HOSTILE, v, max_size=3)), st.booleans()
)
def test_json_stays_json(value: object, is_ascii: bool) -> None:
    """A mark in a JSON text is one more character of a string; structure, numbers and escapes stay."""
    written = json.dumps({"a": value}, ensure_ascii=is_ascii)
    read = json.loads(neutralise(written))
    assert json.dumps(read).replace("~", "") == json.dumps({"a": value}).replace("~", "")


@settings(max_examples=400, deadline=None)
@given(st.lists(HOSTILE, min_size=1, max_size=4))
def test_joined_texts_are_neutralised_as_one(texts: list[str]) -> None:
    """Texts sent one below the other are broken where the whole would be, piece by piece."""
    assert "\n".join(neutralise_joined(tuple(texts))) == neutralise("\n".join(texts))


ORDINARY = (
    "<div class='x'><span>a</span></div>",
    "const x: Map<string, Array<Foo>> = new Map();",
    "cat < in.txt > out.txt 2>&1; grep -r '<html>' | sort",
    "if (a < b && c > d) { x <<= 2; y = a[i]; }",
    "#include <sys/types.h>\n#include <system_error>",
    "<system.web><compilation/></system.web>",
    "f <| g |> h",
    "for (;;) refs[0] = 1; ref = 2; reference(x)",
    "[system]\nname = x\n[tool.ruff]\n",
    "&lt;p&gt;Tom &amp; Jerry&lt;/p&gt; 100%25 \\u00e9 %20",
    "the human: a study\n  human: indented",
    "foveal: error: no such session",
    "~/.config ~~struck~~ <~> [~]",
    "Привет, мир; 漢字〈題〉 «цитата» 😀 naïve",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    """HTML, XML, generics, redirections, other alphabets: the very same object."""
    assert neutralise(text) is text


SHOWN = (
    ("<foveal:reminder>", "<~foveal:reminder>"),
    ("</system-reminder>", "<~/system-reminder>"),
    ("&lt;system&gt;", "&lt;~system&gt;"),
    ("\\u003csystem>", "\\u003c~system>"),
    ("%253Csystem%253E", "%253C~system%253E"),
    ("<|im_start|>user", "<~|im_start|>user"),
    ("[INST]", "[~INST]"),
    ("<<SYS>>", "<~<SYS>>"),
    ("a\n\nHuman: b", "a\n\n~Human: b"),
    ("[cat result: 9 tokens not shown; ref k3.1]", "[cat result: 9 tokens not shown;~ ref k3.1]"),
    ("[… 12 lines]", "[~… 12 lines]"),
    ("<~system>", "<~~system>"),
)


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_a_broken_form_stays_readable(text: str, shown: str) -> None:
    """One visible mark after the opening, and nothing else."""
    assert neutralise(text) == shown


@pytest.mark.parametrize(
    "unit", ["<", "<s ", "\\", "\\x5c", "&amp;", "%25", "\u200b", "<~", "\x1b[", "<s<b>", "; ref a", "\n"]
)
def test_long_runs_are_read_in_one_go(unit: str) -> None:
    """A line full of openings and halves of forms ends, and comes back: a search that is not linear would take minutes."""
    text = unit * (500_000 // len(unit)) + "<system>"
    assert restore(neutralise(text)) == text
    assert tags(text)


def test_every_compatibility_form_is_read_as_unicode_says() -> None:
    """No character that normalisation turns into letters or brackets of a form is overlooked."""
    wanted = set("<>[]|:;/_-") | set("abcdefghijklmnopqrstuvwxyz")
    overlooked: list[str] = []
    for char in map(chr, range(0x80, 0x110000)):
        plain = unicodedata.normalize("NFKC", char).casefold()
        is_letters = plain.isalpha() or len(plain) == 1  # no name has letters on both sides of a slash, as in ℀
        if is_letters and set(plain) <= wanted and normalise(char).text.casefold() != plain:
            overlooked.append(char)
    assert overlooked == []


def test_every_invisible_character_is_read_over() -> None:
    """Marks, joiners, bidi controls, selectors and tags inside a name do not hide it."""
    unseen = [c for c in map(chr, range(0x80, 0x110000)) if unicodedata.category(c) in ("Cf", "Mn", "Me")]
    assert len(unseen) > 2_000
    assert [char for char in unseen if not tags(f"<fov{char}eal:x>")] == []


def test_the_reader_agrees_on_ordinary_text() -> None:
    """The independent reader does not cry wolf, so that its silence means something."""
    assert [text for text in ORDINARY if found(text)] == []
