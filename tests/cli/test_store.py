"""`foveal store`: migrate, backup, doctor, stats and vacuum, for files."""

import pytest

from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.port import KeptNote
from foveal.values.entry import ToolCall, assistant, result, user


@pytest.fixture
def kept(tmp_path):
    with open_store(tmp_path / "agent.db") as store, Session(store, "alpha", model="gpt-5") as session:
        session.append(user("hello"))
    return tmp_path / "agent.db"


def test_a_store_is_moved_and_examined(run, kept, tmp_path):
    """All sessions are in the new store; a second run copies nothing; an address of SQLite is a file."""
    target = f"sqlite:///{tmp_path}/new.db"
    assert run("store", "migrate", kept, target, "--json").json["copied"] == 1
    assert run("store", "migrate", kept, target, "--json").json["copied"] == 0
    assert "1 sessions are whole" in run("store", "migrate", kept, target).out
    assert (run("store", "doctor", target).code, run("store", "stats", target, "--json").json["sessions"]) == (0, 1)


def test_a_session_in_use_is_left(run, kept, tmp_path):
    """The command says which, and that it must be run again."""
    with open_store(kept) as store, Session(store, "alpha", model="gpt-5"):
        done = run("store", "migrate", kept, tmp_path / "new.db")
    assert (done.code, "alpha" in done.out, "Run it again" in done.out) == (1, True, True)


def test_a_store_is_not_moved_to_itself(run, kept, tmp_path):
    """The sentence says that both places are one store, by whatever name."""
    (tmp_path / "link.db").symlink_to(kept)
    done = run("store", "migrate", kept, tmp_path / "link.db")
    assert (done.code, "are the same store" in done.err) == (2, True)


def test_a_missing_artifact_is_told_by_migrate(run, kept, tmp_path):
    """The session is not called whole, the artifact is named, and the exit code is 1."""
    with open_store(kept) as store, Session(store, "alpha", model="gpt-5") as session:
        session.append(assistant("", ToolCall("call", "make", "{}")))
        session.append(result("call", "line\n" * 60_000))
    (lost,) = (file for file in artifacts_folder(kept).rglob("*") if file.is_file())
    lost.unlink()
    done = run("store", "migrate", kept, tmp_path / "new.db")
    assert (done.code, "0 sessions are whole" in done.out, lost.name in done.out) == (1, True, True)


def test_a_copy_whose_original_was_deleted_is_told_by_migrate(run, kept, tmp_path):
    """The sentence names the session and says how to delete it; until then the exit code is 1."""
    new = tmp_path / "new.db"
    assert run("store", "migrate", kept, new).code == 0
    run("delete", "alpha", "--yes", "--store", kept)
    done = run("store", "migrate", kept, new)
    assert (done.code, "still has them: alpha. Delete them there" in done.out) == (1, True)
    run("delete", "alpha", "--yes", "--store", new)
    assert run("store", "migrate", kept, new).code == 0


def test_a_store_is_copied_measured_and_vacuumed(run, kept, tmp_path):
    """Each verb prints one result; the copy is refused where a file is."""
    assert "no damage" in run("store", "backup", kept, tmp_path / "copy.db").out
    assert run("store", "backup", kept, tmp_path / "copy.db").code == 2
    assert "1 sessions (0 held), 1 entries" in run("store", "stats", kept).out
    done = run("store", "vacuum", kept, "--json").json
    assert done["after"] == done["before"] > 0
    assert "bytes before" in run("store", "vacuum", kept).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("migrate", "agent.db"), "needs the store and the place"),
        (("stats", "agent.db", "other.db"), "one too many"),
        (("stats", "nowhere.db"), "no store"),
        (("stats", "mysql://somewhere"), "mysql"),
    ],
)
def test_a_mistake_is_explained(run, words, said):
    """Too few places, too many, one that is not there, and an address that nobody knows."""
    done = run("store", *words)
    assert (done.code, said in done.err) == (2, True)


def test_a_note_that_was_forgotten_is_named_by_migrate(run, kept, tmp_path):
    """It stays forgotten, and the command is done."""
    with open_store(kept) as store:
        store.acquire("scoped", scope="x").release()
        store.scope("x").keep(KeptNote("colour", "blue", "scoped", "host", 5))
    assert run("store", "migrate", kept, tmp_path / "new.db").code == 0
    with open_store(tmp_path / "new.db") as store:
        assert store.scope("x").forget("colour")
    done = run("store", "migrate", kept, tmp_path / "new.db")
    assert (done.code, "1 notes were not copied" in done.out, "scope x: colour" in done.out) == (0, True, True)
