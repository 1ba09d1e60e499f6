"""Searching by meaning: an embedder is a name and a function, and its points live and die with the index."""

import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foveal
from foveal.recall import Fetch, fetch
from foveal.recall.search import Embedder, local_embedder, search
from foveal.recall.search.embedding import points
from foveal.recall.search.vectors import PIECE_CHARACTERS
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite import index as shelf
from foveal.values.entry import ToolCall
from foveal.values.errors import BadInput, MissingExtra

Keep = Callable[..., list[str]]

MEANINGS = (("car", "automobile", "vehicle"), ("sad", "unhappy", "gloomy"), ("cat", "feline"))


class Fake:
    """Counts in how many words of a text each meaning occurs, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> Sequence[Sequence[float]]:
        self.asked.extend(texts)
        return [[*(sum(map(text.count, words)) for words in MEANINGS), 0.01] for text in texts]

    def embedder(self, name: str = "fake", **options: Any) -> Embedder:
        return Embedder(name, self, **options)


@pytest.fixture
def fake() -> Fake:
    return Fake()


def seqs(store: Store, words: str, embedder: Embedder, **options: Any) -> list[int]:
    return [hit.seq for hit in search(store, "test", words, embedder=embedder, **options)]


def vectors(store: SqliteStore) -> int:
    with closing(sqlite3.connect(shelf.index_file(store.path, "test"))) as db:
        return db.execute("SELECT count(*) FROM vectors").fetchone()[0]


def test_what_means_the_same_is_found_without_a_common_word(store: Store, keep: Keep, fake: Fake) -> None:
    """Words alone find nothing here."""
    keep(store, foveal.user("my feline is ill"), foveal.user("the vehicle broke down"), foveal.user("it rains"))
    assert search(store, "test", "automobile") == []
    assert seqs(store, "automobile", fake.embedder())[0] == 2


def test_the_exact_word_and_the_meaning_count_together(store: Store, keep: Keep, fake: Fake) -> None:
    """What both rankings have found comes before what one of them has."""
    keep(store, foveal.user("a vehicle"), foveal.user("an automobile"), foveal.user("zebra crossing"))
    assert seqs(store, "automobile zebra", fake.embedder())[0] == 2


def test_a_hit_by_meaning_is_shown_where_it_stands(store: Store, keep: Keep, fake: Fake) -> None:
    """The snippet is of the nearest piece, and its line leads there."""
    text = "".join(f"row {n} of nothing in particular, to fill the page\n" for n in range(300))
    before, after = text[:7_000].rpartition("\n")[0] + "\n", text
    keep(
        store, foveal.assistant("", ToolCall("c", "look", "{}")), foveal.result("c", before + "a gloomy day\n" + after)
    )
    hit = search(store, "test", "unhappy", embedder=fake.embedder())[0]
    assert hit.kind == "look"
    piece = fetch(store, "test", Fetch(hit.ref, offset=hit.line - 1, limit=12)).text
    assert "gloomy" in piece
    assert piece.startswith(hit.snippet)


def test_kinds_that_are_left_out_are_not_found_by_meaning(store: Store, keep: Keep, fake: Fake) -> None:
    """`without` holds for both rankings."""
    keep(store, foveal.assistant("", ToolCall("c", "look", "{}")), foveal.result("c", "a vehicle"), foveal.user("x"))
    assert 2 not in seqs(store, "automobile", fake.embedder(), without={"look"})


def test_only_new_passages_are_embedded(file_store: SqliteStore, keep: Keep, fake: Fake) -> None:
    """A second search embeds the question and what was appended since, in another process too."""
    keep(file_store, foveal.user("a cat"), foveal.user("a car"))
    seqs(file_store, "feline", fake.embedder())
    assert fake.asked == ["feline", "a car", "a cat"]
    keep(file_store, foveal.user("a sad song"))
    fake.asked.clear()
    other = SqliteStore(file_store.path)
    assert seqs(other, "unhappy", fake.embedder())[0] == 3
    other.close()
    assert fake.asked == ["unhappy", "a sad song"]


def test_a_search_without_an_embedder_makes_no_vectors(file_store: SqliteStore, keep: Keep) -> None:
    """Who does not ask for meaning pays nothing for it."""
    keep(file_store, foveal.user("a cat"))
    search(file_store, "test", "cat")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        vectors(file_store)


def test_the_cost_of_one_search_is_bounded_and_words_come_first(
    file_store: SqliteStore, keep: Keep, fake: Fake
) -> None:
    """What the words have found is embedded first, then the newest; later searches do the rest."""
    keep(file_store, foveal.user("one car"), foveal.user("two"), foveal.user("three"), foveal.user("four"))
    slow = fake.embedder(most=2)
    seqs(file_store, "car", slow)
    assert fake.asked == ["car", "one car", "four"]
    seqs(file_store, "car", slow)
    seqs(file_store, "car", slow)
    assert fake.asked.count("two") == fake.asked.count("three") == 1
    assert vectors(file_store) == 4


def test_a_long_text_is_embedded_in_pieces(file_store: SqliteStore, keep: Keep, fake: Fake) -> None:
    """No piece is longer than said, and together they are the text."""
    text = "".join(f"{n} bottles hanging on the wall\n" for n in range(700))
    keep(file_store, foveal.user(text))
    seqs(file_store, "bottles", fake.embedder())
    assert "".join(fake.asked[1:]) == text
    assert max(map(len, fake.asked)) <= PIECE_CHARACTERS


def test_the_vectors_of_another_embedder_are_not_used(file_store: SqliteStore, keep: Keep, fake: Fake) -> None:
    """They are replaced, even if the new ones have another length."""
    keep(file_store, foveal.user("a cat"), foveal.user("a car"))
    seqs(file_store, "feline", fake.embedder())
    wider = Embedder("wider", lambda texts: [[1.0 * ("cat" in text), 1.0, 2.0, 3.0, 4.0] for text in texts])
    assert len(seqs(file_store, "cat", wider)) == 2
    assert vectors(file_store) == 2


def test_the_vectors_go_with_the_index(file_store: SqliteStore, keep: Keep, fake: Fake) -> None:
    """A damaged index is made anew, vectors included."""
    keep(file_store, foveal.user("a cat"), foveal.user("a car"))
    seqs(file_store, "feline", fake.embedder())
    with closing(sqlite3.connect(shelf.index_file(file_store.path, "test"))) as db:
        db.execute("UPDATE vectors SET data = x'00'")
        db.commit()
    fake.asked.clear()
    assert seqs(file_store, "feline", fake.embedder())[0] == 1
    assert fake.asked == ["feline", "a car", "a cat"]


@pytest.mark.parametrize(
    ("embed", "said"),
    [
        (lambda texts: [[1.0]] * (len(texts) + 1), "vectors"),
        (
            lambda texts: [[1.0] * (1 + i) for i, _ in enumerate(texts * 2)][: len(texts)] if texts[1:] else [[]],
            "numbers",
        ),
        (lambda texts: [[float("nan")] for _ in texts], "NaN"),
        (lambda texts: [[float("inf"), 1.0] for _ in texts], "failed"),
        (lambda texts: None, "TypeError"),
        (lambda texts: [["a"] for _ in texts], "TypeError"),
    ],
)
def test_a_wrong_embedder_is_named(store: Store, keep: Keep, embed: Any, said: str) -> None:
    """Whose doing it is; the index is not taken for damaged."""
    keep(store, foveal.user("a cat"))
    with pytest.raises(BadInput, match=r"the embedder 'mine'") as caught:
        search(store, "test", "cat", embedder=Embedder("mine", embed))
    assert said in str(caught.value)
    assert [hit.seq for hit in search(store, "test", "cat")] == [1]


def test_an_embedder_that_fails_on_passages_is_named(store: Store, keep: Keep) -> None:
    """A TypeError of a stranger's code is not taken for a damaged index."""

    def embed(texts: list[str]) -> list[list[float]]:
        if texts != ["cat"]:
            raise TypeError("out of memory")
        return [[1.0]]

    keep(store, foveal.user("a cat sat"))
    with pytest.raises(BadInput, match=r"'mine' failed on 1 texts .TypeError: out of memory"):
        search(store, "test", "cat", embedder=Embedder("mine", embed))


def test_an_embedder_that_changes_its_length_is_named(store: Store, keep: Keep) -> None:
    """The question is of one length and passages of another; the index is not taken for damaged."""
    keep(store, foveal.user("a cat sat"))
    odd = Embedder("mine", lambda texts: [[1.0] * len(text) for text in texts])
    with pytest.raises(BadInput, match="9 numbers for passages and of 3 for the question"):
        search(store, "test", "cat", embedder=odd)


def test_an_embedder_that_was_changed_under_its_name_starts_again(store: Store, keep: Keep, fake: Fake) -> None:
    """Vectors of another length cannot be compared: they are made anew."""
    keep(store, foveal.user("a cat"), foveal.user("a car"))
    seqs(store, "feline", fake.embedder())
    changed = Embedder("fake", lambda texts: [[1.0 * ("cat" in text or "feline" in text), 0.1] for text in texts])
    assert seqs(store, "feline", changed)[0] == 1


@pytest.mark.parametrize(("name", "most"), [("", 1), (" ", 1), ("x", 0)])
def test_an_embedder_without_a_name_or_room_is_refused(name: str, most: int) -> None:
    """Vectors are kept by name, and a search must get somewhere."""
    with pytest.raises(BadInput):
        Embedder(name, lambda texts: [[1.0] for _ in texts], most)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40))
def test_any_finite_vector_becomes_a_point(vector: list[float]) -> None:
    """One byte a number, and a norm that is zero only for nothing."""
    (point,) = points(Embedder("one", lambda _: [vector]), ["x"])
    assert len(point.data) == len(vector)
    assert (point.norm == 0) == (not any(vector))


def test_text_that_cannot_be_encoded_reaches_the_embedder_as_text(store: Store, keep: Keep, fake: Fake) -> None:
    """Lone surrogates are replaced before they get there."""
    keep(store, foveal.user("a \ud800 cat"))
    assert seqs(store, "feline", fake.embedder()) == [1]
    assert all(text.encode() for text in fake.asked)


def test_without_the_extra_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`MissingExtra`, not a traceback about a module nobody has heard of."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    local_embedder.cache_clear()
    with pytest.raises(MissingExtra, match=r"pip install '\.\[embed\]'"):
        local_embedder()


def test_the_embedder_of_the_extra_finds_a_paraphrase(store: Store, keep: Keep) -> None:
    """Without a network."""
    pytest.importorskip("wordllama")
    keep(
        store,
        foveal.user("The invoice has to be paid before Friday."),
        foveal.user("Our physician said that the medicine works."),
        foveal.user("The compiler optimises loops."),
    )
    assert seqs(store, "doctor and drugs", local_embedder())[0] == 2
