"""`foveal memory`: the notes and the sessions of a scope; and references to other sessions in `foveal recall`."""

import pytest

from foveal import open_store, user
from foveal.recall import memory_ref
from foveal.recall.search import Moment, newest_statements
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.sqlite.index import index_file, scope_key


@pytest.fixture
def path(tmp_path):
    """A store with two sessions of one scope, and a session of another."""
    place = tmp_path / "agent.db"
    with open_store(place) as store:
        for name, scope in (("monday", "ann"), ("friday", "ann"), ("other", "bob")):
            with Session(store, name, model="gpt-5", policy=Policy(memory=scope)) as session:
                session.append(user(f"This is {name}."), id=f"{name}-1")
                session.context.remember(f"A note of {name},\nin two lines", f"key-{name}")
        newest_statements(store, Moment("ann", "none", 1 << 60))
    return place


def test_the_notes_and_sessions_of_a_scope_are_listed(run, path):
    """Each note verbatim with its key, and nothing of another scope."""
    out = run("memory", "ann", "--store", path).out
    assert "key-friday  kept by host in friday, 20" in out
    assert "    A note of monday,\n    in two lines\n" in out
    assert "2 notes; 2 sessions" in out
    assert "other" not in out
    document = run("memory", "ann", "--store", path, "--json").json
    assert {note["key"] for note in document["notes"]} == {"key-monday", "key-friday"}
    assert set(document["sessions"]) == {"monday", "friday"}


def test_a_note_is_forgotten(run, path):
    """It is gone, the others stay, and a key that is not there is an error."""
    assert "forgotten: key-monday" in run("memory", "ann", "--forget", "key-monday", "--store", path).out
    with open_store(path) as store:
        assert [note.key for note in store.scope("ann").notes()] == ["key-friday"]
    for key in ("key-monday", "key-other"):
        done = run("memory", "ann", "--forget", key, "--store", path)
        assert done.code != 0
        assert "nothing was forgotten" in done.err


def test_an_unknown_scope_is_an_error(run, path):
    """It says where the names are."""
    done = run("memory", "nobody", "--store", path)
    assert done.code != 0
    assert "foveal sessions" in done.err
    assert "ann" in run("sessions", "--store", path).out


def test_recall_reads_a_reference_of_the_scope(run, path):
    """Whole and by lines; a reference of another scope is as one that is absent."""
    ref = memory_ref("monday", "monday-1")
    assert run("recall", "friday", ref, "--store", path).out == "This is monday."
    assert run("recall", "friday", ref, "--lines", "1-1", "--store", path, "--json").json["ref"] == ref
    done = run("recall", "other", ref, "--store", path)
    assert done.code != 0
    assert "has nothing under the reference" in done.err


def test_the_doctor_knows_the_index_of_a_scope(run, path):
    """It is no orphan: a sweep leaves it alone."""
    index = index_file(path, scope_key("ann"))
    assert index.exists()
    assert run("doctor", path, "--sweep").code == 0
    assert index.exists()
