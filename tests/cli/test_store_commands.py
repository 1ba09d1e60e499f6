"""`foveal sessions`, `recall`, `doctor` and `models`."""

import re
import subprocess
import sys
from base64 import b64encode

import apsw
import pytest

from foveal import open_store, user
from foveal.cli import doctor
from foveal.session.session import Session
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.sqlite.index import index_file

HEADINGS = [
    *("model", "input", "limit", "window", "output", "input", "$", "output", "$", "cache", "read", "$", "write", "$")
]


def test_sessions_are_listed(run, kept):
    """One line a session; the document has what the store knows without reading the log."""
    head, line = run("sessions", "--store", kept).out.splitlines()
    assert head.split()[:2] == ["session", "entries"]
    assert line.split()[0] == "alpha"
    (card,) = run("sessions", "--store", kept, "--json").json["sessions"]
    assert set(card) == {"id", "created_ms", "updated_ms", "entries", "head", "holder", "scope", "title", "tags"}


def test_an_empty_store_has_no_sessions(run, tmp_path):
    open_store(tmp_path / "new.db").close()
    assert run("sessions", "--store", tmp_path / "new.db").out == "no sessions yet\n"


def test_recall_gives_the_original_to_the_byte(tmp_path):
    """To a pipe it is what was appended, lone surrogates and escape sequences included."""
    text = "a\x1b[1m\0\r\nb \ud83d end"
    store = open_store(tmp_path / "agent.db")
    with Session(store, "s", model="gpt-5") as session:
        entry = session.append(user(text))
    store.close()
    words = ["recall", "s", entry.id[:10], "--store", str(tmp_path / "agent.db")]
    done = subprocess.run([sys.executable, "-m", "foveal", *words], capture_output=True, check=True)
    assert done.stdout == text.encode("utf-8", "surrogatepass")


def test_recall_as_a_document(run, kept):
    lines = run("why", "alpha", "--call", 2, "--store", kept, "--json").json["lines"]
    done = run("recall", "alpha", lines[1]["entry"], "--store", kept, "--json").json
    assert done == {"session": "alpha", "ref": lines[1]["entry"], "text": "Look at everything in alpha."}


def test_doctor_finds_nothing_in_a_sound_store(run, kept):
    done = run("doctor", kept)
    assert done.code == 0
    assert "no damage" in done.out
    report = run("doctor", kept, "--json").json
    assert (report["sessions"], report["damage"], report["salvaged"]) == (1, [], None)


def test_doctor_names_damage_and_salvages(run, kept, tmp_path):
    """Each damage is a line, the exit code is 1, and what is whole can be read from the new file."""
    db = apsw.Connection(str(kept))
    for trigger in [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")]:
        db.execute(f'DROP TRIGGER "{trigger}"')
    db.execute("UPDATE entries SET payload = CAST(payload || 'x' AS BLOB) WHERE seq = 5")
    db.close()
    done = run("doctor", kept)
    assert done.code == 1
    assert "entry 5" in done.out
    assert "--salvage" in done.out
    new = tmp_path / "new.db"
    salvaged = run("doctor", kept, "--salvage", new, "--json")
    assert salvaged.code == 1
    assert salvaged.json["damage"]
    assert salvaged.json["salvaged"]["sessions"] == 1
    assert run("sessions", "--store", new).code == 0
    assert run("doctor", kept, "--salvage", new).code == 2


def test_doctor_refuses_what_is_no_store(run, recorded, tmp_path):
    for path in (recorded("alpha"), tmp_path / "absent.db"):
        done = run("doctor", path)
        assert (done.code, done.out) == (2, "")
        assert str(path) in done.err


def test_models_are_listed_with_windows_and_prices(run):
    """A part of an id, a pattern or another host's spelling finds them."""
    done = run("models", "openai/gpt-5")
    assert done.out.split()[: len(HEADINGS)] == HEADINGS
    assert "openai/gpt-5-mini" in done.out
    (facts,) = run("models", "openai/gpt-5-min?", "--json").json["models"]
    assert facts["window"] > 0 < facts["price_input"]
    assert "without host and revision" in run("models", "aws-claude-opus-4-5").out


def test_an_unknown_model_is_said_to_be_unknown(run):
    done = run("models", "nobody-knows-it")
    assert (done.code, done.out) == (2, "")
    assert "a window of 32,000 tokens is assumed" in done.err


def test_rich_is_not_loaded_before_it_is_needed():
    """The base install runs everything."""
    code = "import sys, foveal.cli, foveal.cli.replay, foveal.cli.demo; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "command", ["sessions", "why", "show", "recall", "search", "models", "doctor", "replay", "demo"]
)
def test_every_command_takes_json(run, command):
    assert "--json" in run(command, "--help").out


def test_doctor_knows_the_indexes_of_search(run, kept):
    """Their size, and those of sessions that are not there; a sound store with such leftovers is no damaged one."""
    assert run("doctor", kept, "--json").json["indexes"] == {
        "files": 0,
        "size_bytes": 0,
        "orphans": [],
        "orphan_bytes": 0,
    }
    run("search", "alpha", "line", "--store", kept)
    own = index_file(kept, "alpha")
    orphan = index_file(kept, "gone")
    orphan.write_bytes(b"x" * 100)
    stranger = own.with_name("notes.txt")
    stranger.write_text("not ours")
    done = run("doctor", kept)
    assert done.code == 0
    assert f"search indexes: 2 files, {own.stat().st_size + 100:,} bytes" in done.out
    assert "1 of them, 100 bytes, are of sessions that are not there" in done.out
    assert f"foveal doctor {kept} --sweep" in done.out
    assert run("doctor", kept, "--json").json["indexes"]["orphans"] == [str(orphan)]


def test_doctor_sweeps_no_index_of_a_session_that_was_made_while_it_read(run, kept, monkeypatch):
    """Its name is not among those that were read, and its index is in use."""
    examine, made = doctor.examine, list[int]()

    def slow(path):
        found = examine(path)
        if not made:
            with open_store(kept) as store, Session(store, "new", model="gpt-5") as session:
                session.append(user("a line"))
            assert run("search", "new", "line", "--store", kept).code == 0
            made.append(index_file(kept, "new").stat().st_ino)
        return found

    monkeypatch.setattr(doctor, "examine", slow)
    assert run("doctor", kept, "--sweep").code == 0
    assert made == [index_file(kept, "new").stat().st_ino]


def test_doctor_sweeps_what_nobody_needs(run, kept):
    """Indexes of sessions that are not there and the temporary files of dead writers; everything else stays."""
    run("search", "alpha", "line", "--store", kept)
    own, orphan = index_file(kept, "alpha"), index_file(kept, "gone")
    orphan.write_bytes(b"x")
    stranger = own.with_name("notes.txt")
    stranger.write_text("not ours")
    folder = artifacts_folder(kept)
    folder.mkdir()
    stray = folder / "tmp-1-dead"
    stray.write_bytes(b"half an artifact")
    assert run("doctor", kept).code == 1
    done = run("doctor", kept, "--sweep")
    assert (done.code, done.out.splitlines()[-1]) == (0, "removed 2 files that nobody needs")
    assert [path.exists() for path in (own, stranger, orphan, stray)] == [True, True, False, False]
    assert run("search", "alpha", "line", "--store", kept).code == 0


def test_a_search_names_sessions_whose_keys_are_missing(run, tmp_path, monkeypatch):
    """The others are searched; the exit code is 1, and the message says which key is missing and where it is to be."""
    place = tmp_path / "agent.db"
    for name in ("lost", "known"):
        keys = tmp_path / name
        keys.write_text(b64encode(name.encode().ljust(32)).decode())
        with open_store(place, keys=keys) as store, Session(store, f"s-{name}", model="gpt-5") as session:
            session.append(user(f"the walrus is {name}"))
    monkeypatch.setenv("FOVEAL_KEYS", str(tmp_path / "known"))
    done = run("sessions", "--search", "walrus", "--store", place)
    assert done.code == 1
    assert "the walrus is known" in done.out
    assert re.search(r"not searched: s-lost: .*under the key [0-9a-f]{16}.*FOVEAL_KEYS", done.out)
    found = run("sessions", "--search", "walrus", "--store", place, "--json").json
    assert [hit["id"] for hit in found["sessions"]] == ["s-known"]
    assert list(found["unreadable"]) == ["s-lost"]
    monkeypatch.delenv("FOVEAL_KEYS")
    done = run("sessions", "--search", "walrus", "--store", place)
    assert (done.code, done.out) == (2, "")  # nothing could be searched
    assert "is encrypted; open the store with its keys" in done.err
    with open_store(place) as store, Session(store, "s-plain", model="gpt-5") as session:
        session.append(user("the walrus is plain"))
    done = run("sessions", "--search", "walrus", "--store", place)
    assert (done.code, "the walrus is plain" in done.out, "and 1 more like it" in done.out) == (1, True, True)
