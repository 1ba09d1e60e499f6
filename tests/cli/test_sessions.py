"""`foveal sessions` and `foveal label`: listed by tag, by time and by words; branches; titles."""

import pytest

from foveal import assistant, open_store, user
from foveal.session.session import Session
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.index import INDEX_OF_ALL, index_file
from foveal.values.errors import ListDamaged, StoreCorrupt


@pytest.fixture
def path(tmp_path):
    """A store with three sessions, of which one is old and one was rewound."""
    place = tmp_path / "agent.db"
    said = {
        "login": "The session cookie of the login expires.",
        "weather": "Will it rain tomorrow?",
        "old": "The cookie recipe of my mother.",
    }
    with open_store(place) as store:
        for name, text in said.items():
            with Session(store, name, model="gpt-5") as session:
                session.append(user(text), id=f"{name}-1")
                session.append(assistant("Let me see."), id=f"{name}-2")
                if name == "login":
                    session.branches.rewind(f"{name}-1")
                    session.append(assistant("It expires on Mondays."), id=f"{name}-3")
        store.backdate("old", created_ms=1, updated_ms=2)
    return place


def names(run, path, *words):
    return [session["id"] for session in run("sessions", "--store", path, "--json", *words).json["sessions"]]


def test_sessions_are_labelled_and_listed_by_tag_and_time(run, path):
    """A tag that is added lists the session, one that is removed does not; old sessions are left out by their age."""
    out = run("label", "login", "--title", "Mondays", "--tag", "release", "--tag", "web", "--store", path).out
    assert out == "login: Mondays; release, web\n"
    run("label", "old", "--tag", "release", "--store", path)
    assert names(run, path, "--tag", "release") == ["login", "old"]
    assert names(run, path, "--tag", "release", "--since", "1d") == ["login"]
    assert names(run, path, "--tag", "nothing") == []
    assert "login (Mondays)" in run("sessions", "--store", path).out
    assert "login: no title; web" in run("label", "login", "--untag", "release", "--no-title", "--store", path).out
    assert names(run, path, "--tag", "release") == ["old"]
    for option, words in (("--tag", "nothing"), ("--tag", ""), ("--search", "")):
        assert "nothing found" in run("sessions", option, words, "--store", path).out
    assert run("label", "nobody", "--tag", "x", "--store", path).code != 0


def test_sessions_are_found_by_words_that_were_said_in_them(run, path):
    """The best one comes first, with its place; words of a branch that was left are not found; tag and time narrow it."""
    out = run("sessions", "--search", "session cookie", "--store", path).out
    assert out.index("login  user, entry 1") < out.index("old  user, entry 1")
    assert "    The session cookie of the login expires." in out
    assert names(run, path, "--search", "cookie", "--since", "1d") == ["login"]
    assert names(run, path, "--search", "cookie", "--limit", "1") == ["old"]
    assert names(run, path, "--search", "rain Mondays") == ["login", "weather"]
    run("label", "weather", "--tag", "sky", "--store", path)
    assert names(run, path, "--search", "rain cookie", "--tag", "sky") == ["weather"]
    assert names(run, path, "--search", "zebra") == names(run, path, "--search", " ") == []


def test_the_index_of_all_sessions_is_a_cache(run, path):
    """It gains what is written later, is made again when it is gone, is no orphan for the doctor, and goes with a deletion."""
    index = index_file(path, INDEX_OF_ALL)
    assert names(run, path, "--search", "cookie") == ["old", "login"]
    with open_store(path) as store, Session(store, "weather", model="gpt-5") as session:
        session.append(user("And a cookie, cookie, cookie."))
    assert names(run, path, "--search", "cookie")[0] == "weather"
    run("doctor", path, "--sweep")
    assert index.exists()
    index.write_bytes(b"damaged")
    assert len(names(run, path, "--search", "cookie")) == 3
    run("delete", "weather", "--yes", "--store", path)
    assert not index.exists()
    assert names(run, path, "--search", "cookie") == ["old", "login"]


def test_a_damaged_session_keeps_nobody_from_those_of_a_tag(run, path, monkeypatch):
    """As without a tag: the others are listed, the damaged one is named, and the exit code is 1."""
    run("label", "login", "--tag", "release", "--store", path)
    page = SqliteStore.page

    def damaged(store, *, after="", **given):
        cards = page(store, after=after, **given)
        if after:
            return cards
        raise ListDamaged({"broken": StoreCorrupt("session broken", "its record does not match its seal")}, cards)

    monkeypatch.setattr(SqliteStore, "page", damaged)
    ran = run("sessions", "--tag", "release", "--store", path)
    assert ran.code == 1
    assert "login" in ran.out
    assert "damaged: broken: session broken: its record does not match its seal" in ran.out


def test_branches_are_listed(run, path):
    """A session that was rewound has two, with the entry at which they parted."""
    (found,) = [
        one for one in run("sessions", "--branches", "--store", path, "--json").json["sessions"] if one["id"] == "login"
    ]
    assert [branch["forked_from"] for branch in found["branches"]] == ["login-1", None]
    assert "login-3" in run("sessions", "--branches", "--store", path).out


def test_a_session_that_is_not_there_is_told_with_the_number_of_the_others(run, tmp_path):
    """A few names stand for all: a reader is not to think that there are no more."""
    with open_store(tmp_path / "agent.db") as store:
        for name in ("a1", "a2", "b1", "b2", "b3"):
            Session(store, name, model="gpt-5").close()
    said = run("label", "zzz", "--tag", "x", "--store", tmp_path / "agent.db").err
    assert said.endswith(" and 2 others\n")
    said = run("label", "a", "--tag", "x", "--store", tmp_path / "agent.db").err
    assert said.rpartition("it has ")[2] in ("a1, a2 and 3 others\n", "a2, a1 and 3 others\n")
