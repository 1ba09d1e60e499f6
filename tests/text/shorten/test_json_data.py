"""JSON: the shape stays true, outliers stay visible, and no value is made up."""

import json
import random
import re

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from foveal.text.guard import plain
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import trim
from foveal.text.shorten.json_data import fits, shrink

REF = "k3v9x2m1qa"
MARK = re.compile(r"\[… ([\d,]+) (items|keys|characters)(?:: [^\]\n]*)?\]")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


def count(text: str) -> int:
    return (len(text) + 3) // 4


def room(tokens: int, *focus: str) -> Allowance:
    return Allowance(tokens, count, REF, frozenset(focus))


class Literal(str):
    """A number as it is written in a source."""


def parsed(text: str):
    return json.loads(text, parse_float=Literal, parse_int=Literal)


class Drawing:
    """Reads a stand-in back and compares it with its source value."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def take(self, *signs: str) -> str:
        self.at += len(self.text[self.at :]) - len(self.text[self.at :].lstrip(" \n,"))
        return next((sign for sign in signs if self.text.startswith(sign, self.at)), "")

    def mark(self, unit: str) -> int:
        """The number that a mark at this place names, or -1."""
        self.take()
        found = MARK.match(self.text, self.at)
        if not found or found[2] != unit:
            return -1
        self.at = found.end()
        return int(found[1].replace(",", ""))

    def compare(self, value: object) -> None:
        if isinstance(value, list):
            self.array(value)
        elif isinstance(value, dict):
            self.object(value)
        elif isinstance(value, str) and not isinstance(value, Literal):
            self.string(value)
        else:
            self.take()
            found = NUMBER.match(self.text, self.at)
            assert found
            self.at = found.end()
            assert found[0] == (value if isinstance(value, Literal) else json.dumps(value))

    def array(self, items: list[object]) -> None:
        whole = self.mark("items")
        if whole >= 0:
            assert whole == len(items)
            return
        assert self.take("[")
        self.at += 1
        place = 0
        while not self.take("]"):
            missing = self.mark("items") if self.take("[… ") and not self.nested(items, place) else -1
            if missing >= 0:
                place += missing
            else:
                self.compare(items[place])
                place += 1
        self.at += 1
        assert place == len(items)

    def nested(self, items: list[object], place: int) -> bool:
        """Return whether a mark here replaces a list inside the list: then the following text is one item, not several."""
        found = MARK.match(self.text, self.at)
        missing = int(found[1].replace(",", "")) if found and found[2] == "items" else -1
        inner = items[place] if place < len(items) else None
        return isinstance(inner, list) and missing == len(inner) and missing > len(items) - place

    def object(self, pairs: dict[str, object]) -> None:
        whole = self.mark("keys")
        if whole >= 0:
            assert whole == len(pairs)
            return
        assert self.take("{")
        self.at += 1
        shown = 0
        while not self.take("}"):
            missing = self.mark("keys")
            if missing >= 0:
                shown += missing
                continue
            key, end = json.JSONDecoder().raw_decode(self.text, self.at)
            self.at = end + 1
            shown += 1
            self.compare(pairs[key])
        self.at += 1
        assert shown == len(pairs)

    def string(self, value: str) -> None:
        self.take()
        shown, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        cut = MARK.search(shown)
        if shown != value:
            assert cut
            start, end = shown[: cut.start()], shown[cut.end() :]
            assert value.startswith(start)
            assert value.endswith(end)
            assert len(value) - len(start) - len(end) == int(cut[1].replace(",", ""))


def made(rng: random.Random, depth: int = 0) -> object:
    """A value out of a seed: drawing such trees from a recursive strategy takes a second for each."""
    # Objects inside arrays, not arrays inside arrays: a mark inside nested arrays can be read in two ways.
    kind = rng.randrange(10) if depth < 4 else 9
    if kind < 3 or depth == 0:
        return [
            made_object(rng, depth + 1)
            for _ in range(rng.choice((1, 3, 12, 40)) if depth == 0 else rng.choice((0, 1, 3)))
        ]
    if kind < 5:
        return made_object(rng, depth + 1)
    text = "".join(rng.choices('abc é日👍🏽\n"\\/', k=rng.choice((0, 3, 20, 200))))
    return rng.choice((None, True, False, rng.randint(-(10**12), 10**12), rng.uniform(-1e9, 1e9), 1e-7, text, text))


def made_object(rng: random.Random, depth: int) -> dict[str, object]:
    names = rng.sample(
        ("id", "name", "error", "items", "Größe", "x" * 30, "a b", "path", "n"),
        rng.choice((0, 1, 3, 9) if depth < 2 else (0, 1, 2)),
    )
    return {name: made(rng, depth) for name in names}


@given(st.integers(0, 2**32), st.integers(20, 400))
@settings(max_examples=400, deadline=None)
def test_a_drawing_agrees_with_its_source_at_every_place(seed, tokens):
    """Each value is shown at its place in the source, and every mark names the number of missing items."""
    text = json.dumps(made(random.Random(seed)))
    shown = shrink(text, room(tokens))
    if shown is not None and "[the longest text" not in shown:
        drawing = Drawing(plain(shown).split("\n", 1)[1])
        drawing.compare(parsed(text))
        assert not drawing.text[drawing.at :].strip()


def records(count: int = 400) -> list[dict[str, object]]:
    return [{"id": f"u-{i:04}", "age": 30 + i % 5, "status": "active", "bio": "word " * 60} for i in range(count)]


def test_the_items_that_stand_out_are_shown():
    """Another shape, an extreme number and a rare value survive among 400 like items, and so do the first and the last."""
    items = records()
    items[123]["age"] = 977
    items[234]["status"] = "failed"
    items[321] = {"id": "u-0321", "error": "no such user"}
    shown = plain(shrink(json.dumps(items), room(400)) or "")
    for expected in ("u-0000", "u-0399", "977", "u-0234", '"failed"', "no such user"):
        assert expected in shown


def test_values_survive_and_not_only_keys():
    """A result of many rows keeps rows, not a list of its fields."""
    shown = plain(shrink(json.dumps({"status": "ok", "rows": records()}), room(300)) or "")
    assert '"id":"u-0000"' in shown
    assert re.search(r"\[… [\d,]+ items\]", shown)


def test_what_was_asked_for_is_shown():
    """An item that holds a term in focus comes before ordinary ones."""
    shown = plain(shrink(json.dumps(records()), room(250, "u-0205")) or "")
    assert "u-0205" in shown


def test_large_arrays_show_trouble_far_inside():
    """The one item that mentions an error is found in an array that is too large to decode whole."""
    items = records(4_000)
    items[2_717]["status"] = "error: disk full"
    text = json.dumps(items)
    shown = plain(shrink(text, room(400)) or "")
    assert "disk full" in shown
    assert "u-2717" in shown
    drawing = Drawing(plain(shown).split("\n", 1)[1])
    drawing.compare(parsed(text))


def test_numbers_are_shown_as_they_were_written():
    """1.10 is not 1.1, 1e5 is not 100000.0, and large integers keep their digits."""
    row = '{"a": 1.10, "b": 1e5, "c": 123456789012345678901234567890, "d": -0.0}'
    shown = plain(shrink(f"[{', '.join([row] * 60)}]", room(150)) or "")
    for literal in ("1.10", "1e5", "123456789012345678901234567890", "-0.0"):
        assert literal in shown


def test_json_lines_are_read_as_a_list():
    """One object a line is sampled as the items of an array are."""
    text = "\n".join(json.dumps(item) for item in records())
    assert fits(text, "")
    shown = plain(shrink(text, room(300)) or "")
    assert "u-0000" in shown
    assert "u-0399" in shown


def test_a_preamble_stays():
    """Text that a tool prints before the JSON is kept."""
    text = "Exit code: 0\nOutput:\n" + json.dumps(records())
    assert fits(text, "exec")
    shown = plain(shrink(text, room(300)) or "")
    assert "Exit code: 0" in shown


def test_a_long_text_inside_is_shown_by_its_lines():
    """When one string is most of the data, its best lines are shown as text."""
    report = "\n".join(f"Line {i} of the report about Module{i}" for i in range(400))
    shown = plain(shrink(json.dumps({"task": "t-17", "output": report}), room(300)) or "")
    assert '"t-17"' in shown
    assert "\nLine 0 of the report" in shown


@pytest.mark.parametrize(("opening", "closing"), [("[", ""), ('{"a":', ""), ("[", "]"), ('[{"a":', "")])
def test_deep_nesting_is_survived(opening, closing):
    """A hundred thousand brackets are a text like any other."""
    found = trim(opening * 100_000 + closing * 100_000, "api", room(200))
    assert found is not None
    assert count(found[1]) <= 200


@pytest.mark.parametrize("text", ["{", "[1,]", "{'a': 1}", '{"a": 1', "[NaN]", '"\ud800"', '["\ud800"]', "[1] [2"])
def test_what_is_no_json_is_left_to_others(text):
    """Broken JSON is not guessed at."""
    assert shrink(text * 100, room(20)) is None
