"""Examining and salvaging damaged stores."""

import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from foveal.stores.artifacts import artifacts_folder
from foveal.stores.port import Draft, Row
from foveal.stores.sqlite import SqliteStore, doctor
from foveal.stores.sqlite.doctor import STRAY, examine, salvage, sweep
from foveal.values.codec import decode, encode
from foveal.values.entry import Note, user
from foveal.values.errors import BadInput, SchemaTooNew, StoreError


def tampered(path: Path, *statements: str) -> None:
    """Change the file behind the store's back; the triggers stay what they were."""
    db = sqlite3.connect(path)
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        db.execute("DROP TRIGGER " + name)
    for statement in statements:
        assert db.execute(statement).rowcount != 0
    for _, sql in triggers:
        db.execute(sql)
    db.commit()
    db.close()


def rows_of(path: Path, session: str) -> list[Row]:
    store = SqliteStore(path)
    try:
        return list(store.rows(session))
    finally:
        store.close()


def places(path: Path) -> list[str]:
    return [damage.place for damage in examine(path).damage]


def test_a_sound_store_has_no_damage(filled: Path) -> None:
    """Everything is counted."""
    report = examine(filled)
    assert (report.sessions, report.entries, report.artifacts, report.damage) == (3, 90, 9, ())


def test_an_empty_store_has_no_damage(path: Path) -> None:
    """Nothing is nothing to complain about."""
    SqliteStore(path).close()
    assert examine(path).damage == ()


def test_a_store_in_use_can_be_examined(filled: Path) -> None:
    """What another handle has committed but not yet checkpointed is seen."""
    store = SqliteStore(filled)
    store.acquire("new").append([Draft("a", None, 1, "me", encode(user("hello")))])
    assert examine(filled).entries == 91
    store.close()


def test_examining_changes_nothing(filled: Path) -> None:
    """The file is the same byte for byte."""
    before = filled.read_bytes()
    examine(filled)
    assert filled.read_bytes() == before


def test_every_damaged_row_is_listed(filled: Path) -> None:
    """One bad row does not hide the next, and each is named by session and entry."""
    tampered(
        filled,
        "UPDATE entries SET payload = x'3d7b7d' WHERE id IN ('s0-004', 's1-000', 's1-029')",
        "UPDATE entries SET author = 'mallory' WHERE id = 's2-010'",
        "DELETE FROM entries WHERE id IN ('s2-020', 's2-021')",
    )
    assert places(filled) == [
        "session s0, entry 5",
        "session s1, entry 1",
        "session s1, entry 30",
        "session s2, entry 11",
        "session s2, entries 21 to 22",
        "session s2, entry 23",
    ]


def test_a_payload_that_is_no_entry_is_listed(path: Path) -> None:
    """A row can be whole and yet not be something that Foveal wrote."""
    store = SqliteStore(path)
    store.acquire("s").append([Draft("a", None, 1, "me", b"not an entry")])
    store.close()
    assert places(path) == ["session s, entry 1"]


def test_missing_and_damaged_artifacts_are_listed_with_who_names_them(filled: Path) -> None:
    """The row that would be recalled in vain is the place."""
    first, second, *_ = sorted(artifacts_folder(filled).glob("*/*"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1] + b"!")
    report = examine(filled)
    assert report.artifacts == 7
    assert len(report.damage) == 2
    for damage in report.damage:
        assert "entry" in damage.place
        assert first.name in damage.what or second.name in damage.what


def test_strays_are_listed_and_swept(filled: Path) -> None:
    """A temporary file without a writer is reported by the examination and removed by the sweep."""
    stray = artifacts_folder(filled) / "tmp-1-dead"
    stray.write_bytes(b"half")
    assert [(damage.place, damage.what) for damage in examine(filled).damage] == [(str(stray), STRAY)]
    assert sweep(filled) == 1
    assert examine(filled).damage == ()


def test_a_changed_schema_is_listed(filled: Path) -> None:
    """A store without its triggers is no longer append-only."""
    db = sqlite3.connect(filled)
    db.execute("DROP TRIGGER entries_never_go")
    db.close()
    assert places(filled) == [str(filled)]


@pytest.mark.parametrize("content", [b"hello", b"", b"{}\n" * 4000])
def test_what_is_not_a_store_is_an_error(path: Path, content: bytes) -> None:
    """Neither examined nor salvaged, and nothing is made."""
    path.write_bytes(content)
    target = path.with_name("target.db")
    for attempt in (lambda: examine(path), lambda: salvage(path, target)):
        with pytest.raises(StoreError, match="not"):
            attempt()
    assert not target.exists()
    with pytest.raises(StoreError, match="not a file"):
        examine(path.parent / "absent.db")


def test_a_newer_store_is_not_examined(filled: Path) -> None:
    """A doctor who does not know the schema makes no diagnosis."""
    db = sqlite3.connect(filled)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(SchemaTooNew):
        examine(filled)


def test_a_sound_store_is_salvaged_whole(filled: Path) -> None:
    """Without damage the copy has the same rows and artifacts."""
    target = filled.with_name("target.db")
    report = salvage(filled, target)
    assert (report.sessions, report.entries, report.artifacts, report.damage) == (3, 90, 9, ())
    assert rows_of(target, "s1") == rows_of(filled, "s1")
    assert examine(target).damage == ()


def test_a_hole_becomes_a_note_and_its_neighbours_are_kept(filled: Path) -> None:
    """Lost rows are replaced by one note that says so; the row after them becomes its child."""
    before = rows_of(filled, "s1")
    tampered(filled, "UPDATE entries SET payload = x'3d7b7d' WHERE id IN ('s1-004', 's1-005')")
    target = filled.with_name("target.db")
    original = filled.read_bytes()
    report = salvage(filled, target)
    assert filled.read_bytes() == original
    assert report.entries == 88
    assert [damage.place for damage in report.damage] == ["session s1, entries 5 to 6"]
    rows = rows_of(target, "s1")
    assert [row.id for row in rows if not row.id.startswith("lost-")] == [
        row.id for row in before if row.seq not in (5, 6)
    ]
    note, after = rows[4], rows[5]
    body = decode(note.payload)
    assert isinstance(body, Note)
    assert "entries 5 to 6 of session s1" in body.text
    assert (note.parent, after.id, after.parent) == ("s1-003", "s1-006", note.id)
    assert after.payload == before[6].payload
    assert note.id == "lost-" + sha256(b"s1\x005\x006").hexdigest()[:24]
    assert examine(target).damage == ()


def test_a_row_with_a_damaged_hash_is_vouched_for_by_the_next(filled: Path) -> None:
    """If only the hash is damaged the content is proven by the chain, at the end of the log as well."""
    before = rows_of(filled, "s1")
    tampered(filled, "UPDATE entries SET hash = zeroblob(32) WHERE id IN ('s1-004', 's1-029')")
    assert places(filled)[:2] == ["session s1, entry 5", "session s1, entry 30"]
    target = filled.with_name("target.db")
    assert salvage(filled, target).entries == 90
    assert rows_of(target, "s1") == before


def test_rows_after_a_lost_one_are_kept(filled: Path) -> None:
    """The row after a missing one cannot be checked, is kept, and the report says so."""
    tampered(filled, "DELETE FROM entries WHERE id = 's1-000'")
    target = filled.with_name("target.db")
    report = salvage(filled, target)
    assert report.entries == 89
    assert any("could not be checked" in damage.what and "entry 2" in damage.place for damage in report.damage)
    assert [row.id for row in rows_of(target, "s1")][1:] == [f"s1-{i:03}" for i in range(1, 30)]


def test_a_session_whose_record_is_gone_is_salvaged_under_another_name(filled: Path) -> None:
    """Rows without a session are not lost with its name."""
    tampered(filled, "DELETE FROM sessions WHERE id = 's1'", "DELETE FROM snapshots WHERE session = 2")
    target = filled.with_name("target.db")
    salvage(filled, target)
    rows = rows_of(target, "lost-session-2")
    assert [row.id for row in rows][1:] == [f"s1-{i:03}" for i in range(1, 30)]
    assert len(rows_of(target, "s0")) == 30


def test_a_lost_artifact_is_reported_and_its_row_is_kept(filled: Path) -> None:
    """Head and tail of the text are in the row, which is better than nothing."""
    lost = min(artifacts_folder(filled).glob("*/*"))
    lost.unlink()
    report = salvage(filled, filled.with_name("target.db"))
    assert (report.entries, report.artifacts, len(report.damage)) == (90, 8, 1)


def test_a_salvage_that_is_interrupted_leaves_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a store that had its name would be taken for all that is whole, and be in the way of the next salvage."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    target = filled.with_name("target.db")
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "_salvage_artifacts", interrupt)
        with pytest.raises(KeyboardInterrupt):
            salvage(filled, target)
    assert [file.name for file in filled.parent.iterdir() if "target" in file.name] == []
    assert salvage(filled, target).damage == ()


def test_an_existing_target_is_refused(filled: Path, tmp_path: Path) -> None:
    """Nothing is ever salvaged over something."""
    target = tmp_path / "target.db"
    target.write_bytes(b"precious")
    with pytest.raises(BadInput, match="exists"):
        salvage(filled, target)
    with pytest.raises(BadInput, match="exists"):
        salvage(filled, filled)
    assert target.read_bytes() == b"precious"


def test_a_file_with_a_destroyed_page_is_salvaged_around_it(filled: Path) -> None:
    """Whichever page below the roots is overwritten, salvaging gives a sound store and loses few rows."""
    whole = filled.read_bytes()
    kept: list[int] = []
    for page in (1, 2, *range(4, len(whole) // 4096, 5)):
        filled.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
        target = filled.with_name(f"target{page}.db")
        report = salvage(filled, target)
        assert report.damage or report.entries == 90
        assert examine(target).damage == ()
        kept.append(report.entries)
    assert sum(count >= 60 for count in kept) > len(kept) / 2


def test_a_row_at_a_wild_place_does_not_lengthen_the_log(filled: Path) -> None:
    """A place with a high bit flipped is one lost row, and not two thousand million missing ones."""
    tampered(filled, "UPDATE entries SET place = place + 2147483648 WHERE id = 's1-029'")
    assert places(filled)[:2] == ["session s1, entry 30", "session s1, entry 2147483678"]
    tampered(filled, "UPDATE sessions SET epoch = epoch + 1 WHERE id = 's1'")  # now its record cannot be trusted either
    assert "session s1, entries 30 to 2147483677" in places(filled)
    report = salvage(filled, filled.with_name("target.db"))
    assert report.entries in (89, 90)


def test_a_log_of_another_history_is_listed(filled: Path, tmp_path: Path) -> None:
    """A last row that is consistent in itself, but is not the one that the session's record was sealed with, is damage."""
    other = tmp_path / "other.db"
    store = SqliteStore(other)
    writer = store.acquire("s1")
    writer.append(
        [Draft(row.id, row.parent, row.time_ms, row.author, row.payload) for row in rows_of(filled, "s1")[:29]]
    )
    writer.append([Draft("s1-029", "s1-028", 1, "forger", encode(user("another ending")))])
    store.close()
    tampered(
        filled,
        "ATTACH DATABASE 'PATH' AS other".replace("PATH", str(other)),
        "UPDATE entries SET (time_ms, author, hash, payload) = "
        "(SELECT time_ms, author, hash, payload FROM other.entries WHERE id = 's1-029') WHERE id = 's1-029'",
    )
    assert "session s1, entry 30" in places(filled)


@pytest.mark.parametrize("share", [0.993, 0.9, 0.5])
def test_a_file_that_lost_its_end_is_salvaged(filled: Path, share: float) -> None:
    """SQLite refuses such a file; everything in the part that is left comes back, and the loss is reported."""
    whole = filled.read_bytes()
    filled.write_bytes(whole[: int(len(whole) * share)])
    assert examine(filled).damage
    target = filled.with_name("target.db")
    report = salvage(filled, target)
    assert report.entries >= 90 * share * 0.7 - 10
    assert examine(target).damage == ()


def test_a_file_whose_first_page_is_gone_is_salvaged(filled: Path) -> None:
    """The list of the tables is the same in every store, so that a store without it can still be read."""
    whole = filled.read_bytes()
    for size in (16, 512, 4096):
        filled.write_bytes(bytes(size) + whole[size:])
        target = filled.with_name(f"target{size}.db")
        report = salvage(filled, target)
        assert (report.sessions, report.entries) == (3, 90)
        assert report.damage


def test_a_store_reached_by_a_symbolic_link_is_the_same_store(filled: Path, tmp_path: Path) -> None:
    """Its artifacts, its WAL and its doctor are those of the file that the link leads to."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(filled)
    with SqliteStore(link) as store, SqliteStore(filled) as direct:
        card = store.artifacts.put([b"through the link"])
        assert b"".join(direct.artifacts.read(card.sha256)) == b"through the link"
        assert store.index("s0").place == direct.index("s0").place
    assert examine(link).damage == ()
    assert [path.name for path in link.parent.iterdir()] == ["link.db"]
