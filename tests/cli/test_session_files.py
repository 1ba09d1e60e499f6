"""`foveal export`, `import`, `delete`, `expire` and `backup`."""

import subprocess
import sys
from pathlib import Path

import pytest

from foveal import Session, open_store, user
from foveal.stores.sqlite.store import SqliteStore


@pytest.fixture
def two(kept):
    """A store with two sessions, `alpha` and `beta`."""
    with open_store(kept) as store, Session(store, "beta", model="gpt-5") as session:
        session.append(user("hello"))
    return kept


def names(run, store):
    return {card["id"] for card in run("sessions", "--store", store, "--json").json["sessions"]}


def test_a_session_moves_from_store_to_store(run, kept, tmp_path):
    """Exported, imported, and the same prompt comes out of the other store."""
    done = run("export", "alpha", "--store", kept, "-o", tmp_path / "alpha.jsonl")
    assert (done.code, done.out.split(":")[1].split(",")[0]) == (0, " session alpha")
    assert (tmp_path / "alpha.jsonl").stat().st_mode & 0o777 == 0o600
    done = run("import", tmp_path / "alpha.jsonl", "--store", tmp_path / "new.db")
    assert done.out.startswith("imported session alpha: ")
    one, other = (run("show", "alpha", "--call", 3, "--store", store).out for store in (kept, tmp_path / "new.db"))
    assert one == other
    again = run("import", tmp_path / "alpha.jsonl", "--store", tmp_path / "new.db")
    assert again.code == 2
    assert "has a session 'alpha' already" in again.err
    assert (
        run("import", tmp_path / "alpha.jsonl", "--as", "copy", "--store", tmp_path / "new.db", "--json").json[
            "session"
        ]
        == "copy"
    )


def test_what_is_refused_makes_no_store(run, kept, tmp_path, monkeypatch):
    """A file that is none of `export`, and a tenant that has no such name."""
    new = tmp_path / "new.db"
    (tmp_path / "bad.jsonl").write_text("nothing\n")
    assert "bad.jsonl: this is not an exported session" in run("import", tmp_path / "bad.jsonl", "--store", new).err
    assert run("export", "alpha", "--store", kept, "-o", tmp_path / "alpha.jsonl").code == 0
    monkeypatch.setenv("FOVEAL_TENANT", "a b")
    assert "cannot name a tenant" in run("import", tmp_path / "alpha.jsonl", "--store", new).err
    assert not list(tmp_path.glob("new.db*"))


@pytest.mark.parametrize("ending", ["", "-wal", "-journal", ".artifacts/ab/name", ".index/name.db"])
@pytest.mark.parametrize("words", [("export", "alpha", "-o"), ("view", "alpha", "--html")])
def test_no_file_of_a_store_is_written_over(run, kept, words, ending):
    """Neither the store itself nor what lies beside it, whichever command writes."""
    target = Path(f"{kept}{ending}")
    target.parent.mkdir(parents=True, exist_ok=True)
    before = target.read_bytes() if target.exists() else None
    done = run(*words, target, "--store", kept)
    assert (done.code, done.out) == (2, "")
    assert "a database, and is not written over" in done.err
    assert (target.read_bytes() if target.exists() else None) == before


def test_a_store_that_the_command_makes_is_not_written_over(run, recorded, tmp_path):
    """A replay into a new store, whose prompts are to have the same name: the store stays."""
    store = tmp_path / "new.db"
    assert "is not written over" in run("replay", recorded("alpha"), "--store", store, "--prompts", store).err
    assert names(run, store) == {"alpha"}


def test_an_export_replaces_an_earlier_one(run, kept, tmp_path):
    """As `-o` does everywhere, so that a job can write the same file each night."""
    target = tmp_path / "alpha.jsonl"
    target.write_text("the last export")
    assert run("export", "alpha", "--store", kept, "-o", target).code == 0
    assert run("import", target, "--store", tmp_path / "new.db").code == 0


def test_an_export_goes_through_a_pipe(run, kept, tmp_path):
    """Exported to standard output and imported from standard input, to the byte."""
    words = [sys.executable, "-m", "foveal"]
    exported = subprocess.run([*words, "export", "alpha", "--store", kept], capture_output=True, check=True).stdout
    run("export", "alpha", "--store", kept, "-o", tmp_path / "alpha.jsonl")
    assert exported == (tmp_path / "alpha.jsonl").read_bytes()
    subprocess.run([*words, "import", "-", "--store", tmp_path / "new.db"], input=exported, check=True)
    assert names(run, tmp_path / "new.db") == {"alpha"}


def test_a_damaged_export_is_refused_with_its_name(run, kept, tmp_path):
    """The message has the file and the place."""
    exported = tmp_path / "alpha.jsonl"
    run("export", "alpha", "--store", kept, "-o", exported)
    exported.write_bytes(exported.read_bytes()[:-200])
    done = run("import", exported, "--store", tmp_path / "new.db")
    assert (done.code, done.out) == (2, "")
    assert str(exported) in done.err


def test_delete_asks_before_it_deletes(run, two):
    """Without --yes it lists what would go and exits with 1; with it, it prints the proof."""
    done = run("delete", "alpha", "--store", two)
    assert (done.code, done.out.splitlines()[-1]) == (
        1,
        "1 session would be deleted; nothing was. Add --yes to delete.",
    )
    assert names(run, two) == {"alpha", "beta"}
    done = run("delete", "alpha", "--yes", "--store", two, "--json")
    (tombstone,) = done.json["tombstones"]
    assert (done.code, done.json["deleted"], len(tombstone["chain"])) == (0, ["alpha"], 64)
    assert names(run, two) == {"beta"}
    assert run("doctor", two).code == 0
    assert run("delete", "alpha", "--yes", "--store", two).code == 2


def test_a_session_in_use_is_deleted_only_by_force(run, two):
    """The error names the holder; --takeover deletes under its hands."""
    with open_store(two) as store, Session(store, "beta", model="gpt-5"):
        done = run("delete", "beta", "--yes", "--store", two)
        assert done.code == 2
        assert "is held by" in done.err
        assert run("delete", "beta", "--yes", "--takeover", "--store", two).code == 0


def test_old_sessions_expire(run, two, monkeypatch):
    """By the age of their last entry; a session that is open stays."""
    done = run("expire", "--older-than", "30d", "--yes", "--store", two)
    assert (done.code, done.out) == (0, "nothing to delete\n")
    assert run("expire", "--older-than", "soon", "--store", two).code == 2
    monkeypatch.setattr("foveal.cli.expire.time.time_ns", lambda: 4_000_000_000 * 10**9)
    with open_store(two) as store, Session(store, "beta", model="gpt-5"):
        assert run("expire", "--older-than", "30d", "--store", two, "--json").json == {"would_delete": ["alpha"]}
        assert run("expire", "--older-than", "30d", "--yes", "--store", two).code == 0
        assert names(run, two) == {"beta"}


def test_a_backup_is_verified(run, kept, tmp_path):
    """The copy is examined; an existing file is never replaced."""
    done = run("backup", tmp_path / "copy.db", "--store", kept)
    assert (done.code, "no damage" in done.out) == (0, True)
    assert names(run, tmp_path / "copy.db") == {"alpha"}
    assert run("backup", tmp_path / "copy.db", "--store", kept).code == 2
    assert run("backup", tmp_path / "other.db", "--store", kept, "--json").json["damage"] == []


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("foveal.stores.sqlite.new_file.artifacts_folder", ("backup", "copy.db", "--store", "STORE")),
        ("foveal.stores.sqlite.new_file.artifacts_folder", ("store", "backup", "STORE", "copy.db")),
        ("foveal.stores.sqlite.new_file.artifacts_folder", ("doctor", "STORE", "--salvage", "copy.db")),
        ("foveal.cli.export.export_session", ("export", "alpha", "-o", "copy.db", "--store", "STORE")),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_a_copy_that_is_terminated_leaves_nothing(kept, tmp_path, place, words):
    """SIGTERM is how services end: what is left of a copy would be out of the reach of every deletion."""
    script = (
        "import os, pkgutil, signal, sys, time\n"
        "from foveal.cli import main\n"
        "module, _, name = sys.argv[1].rpartition('.')\n"
        "end = lambda *_: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(60))\n"
        "setattr(pkgutil.resolve_name(module), name, end)\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    given = [str(kept) if word == "STORE" else word for word in words]
    done = subprocess.run([sys.executable, "-c", script, place, *given], cwd=tmp_path, check=False)
    assert done.returncode == 143
    assert [file.name for file in tmp_path.iterdir() if "copy.db" in file.name] == []


def test_doctor_warns_of_a_database_without_its_wal(run, tmp_path):
    """A copy of the file alone, taken while it was in use, is named as what it is."""
    store = SqliteStore(tmp_path / "agent.db")
    store.acquire("s")
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "agent.db").read_bytes())
    done = run("doctor", copy)
    assert done.code == 1
    assert "copy.db-wal is not beside it" in done.out
    assert run("sessions", "--store", copy).code == 2
    assert run("doctor", copy, "--salvage", tmp_path / "saved.db").code == 1
    assert names(run, tmp_path / "saved.db") == {"s"}
    store.close()
