"""`foveal recall` with a window, and `foveal search`."""

import sys

import pytest

from foveal import open_store, user
from foveal.recall.search import Embedder, local_embedder
from foveal.testing.builders import open_session


@pytest.fixture
def book(tmp_path):
    """A store with one text of a hundred lines in session `s`, and its reference."""
    store = open_store(tmp_path / "book.db")
    with open_session(store, "s") as session:
        entry = session.append(user("".join(f"line {n} of the book\n" for n in range(1, 101))))
    store.close()
    return tmp_path / "book.db", entry.id[:10]


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        (["--lines", "3-5"], 3, 5),
        (["--lines", "7"], 7, 7),
        (["--lines", "98-"], 98, 100),
        (["--lines=-2"], 1, 2),
        (["--offset", "10", "--limit", "2"], 11, 12),
        (["--offset", "97"], 98, 100),
        (["--limit", "1"], 1, 1),
    ],
)
def test_a_window_is_printed_verbatim(run, book, words, first, last):
    """Lines by their numbers, or by offset and limit; nothing else is printed."""
    path, ref = book
    done = run("recall", "s", ref, *words, "--store", path)
    assert done.out == "".join(f"line {n} of the book\n" for n in range(first, last + 1))
    assert (done.code, done.err) == (0, "")


def test_characters_are_counted_if_asked_for(run, book):
    path, ref = book
    done = run("recall", "s", ref, "--offset", 5, "--limit", 6, "--unit", "characters", "--store", path)
    assert done.out == "1 of t"


def test_a_pattern_prints_numbered_lines(run, book):
    """And says on stderr that nothing matches, or that more follows."""
    path, ref = book
    done = run("recall", "s", ref, "--pattern", r"line \d0 ", "--context", 1, "--limit", 4, "--store", path)
    assert (
        done.out == "9-line 9 of the book\n10:line 10 of the book\n11-line 11 of the book\n--\n19-line 19 of the book\n"
    )
    assert "--offset 19" in done.err
    none = run("recall", "s", ref, "--pattern", "whale", "--store", path)
    assert (none.code, none.out) == (0, "")
    assert "no line of 100" in none.err


def test_a_window_as_a_document(run, book):
    """All that is known of it, and how to go on."""
    path, ref = book
    done = run("recall", "s", ref, "--lines", "2-3", "--store", path, "--json").json
    assert done == {
        "session": "s",
        "ref": ref,
        "text": "line 2 of the book\nline 3 of the book\n",
        "unit": "lines",
        "total": 100,
        "first": 2,
        "last": 3,
        "next": {"ref": ref, "offset": 3, "limit": 2},
        "matches": None,
        "more": True,
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--lines", "x"],
        ["--lines", "5-3"],
        ["--lines", "0-3"],
        ["--lines", "-"],
        ["--lines", "1-2", "--offset", "3"],
        ["--limit", "0"],
        ["--offset", "100"],
        ["--unit", "words"],
        ["--pattern", "("],
        ["--pattern", "a", "--context", "-1"],
    ],
)
def test_a_window_that_makes_no_sense_is_refused(run, book, words):
    """One line on stderr, exit code 2, nothing on stdout."""
    path, ref = book
    done = run("recall", "s", ref, *words, "--store", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_search_prints_places_with_their_references(run, kept):
    """The reference and the line lead back to the place; the document has the same and the score."""
    done = run("search", "alpha", "file_3", "line", 399, "--store", kept, "--limit", 3)
    assert done.code == 0
    (best, *_) = run("search", "alpha", "line 399 of file 3", "--store", kept, "--json").json["hits"]
    assert set(best) == {"ref", "kind", "seq", "line", "score", "snippet", "characters"}
    shown = run("recall", "alpha", best["ref"], "--lines", best["line"], "--store", kept).out
    assert shown.rstrip("\n") == best["snippet"].split("\n")[0]
    assert best["ref"] in run("search", "alpha", "line 399 of file 3", "--store", kept).out


def test_search_says_that_nothing_was_found(run, kept):
    done = run("search", "alpha", "xylophone", "--store", kept)
    assert (done.code, done.out) == (0, "nothing found\n")


@pytest.mark.parametrize("words", [["alpha", " "], ["alpha", "x", "--limit", "0"], ["nobody", "x"], ["alpha"]])
def test_a_search_that_makes_no_sense_is_refused(run, kept, words):
    done = run("search", *words, "--store", kept)
    assert (done.code, done.out) == (2, "")


def test_search_by_meaning_finds_what_has_none_of_the_words(run, kept, monkeypatch):
    """`--like` asks the embedder of the extra as well."""
    near = Embedder(
        "fake", lambda texts: [[1.0, float("That was all" in text or text == "finished")] for text in texts]
    )
    monkeypatch.setattr("foveal.cli.search.local_embedder", lambda: near)
    assert run("search", "alpha", "finished", "--store", kept).out == "nothing found\n"
    found = run("search", "alpha", "finished", "--like", "--limit", 1, "--store", kept)
    assert "That was all." in found.out


def test_search_by_meaning_without_the_extra_names_the_command(run, kept, monkeypatch):
    """What to install, and exit code 2."""
    monkeypatch.setitem(sys.modules, "wordllama", None)
    local_embedder.cache_clear()
    refused = run("search", "alpha", "x", "--like", "--store", kept)
    assert refused.code == 2
    assert "pip install '.[embed]'" in refused.err
