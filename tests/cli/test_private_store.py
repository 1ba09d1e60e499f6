"""Commands on a store that has keys and tenants."""

from base64 import b64encode
from pathlib import Path
from secrets import token_bytes

import apsw
import pytest

pytest.importorskip("cryptography", reason="the extra `keys` is not installed")

import foveal
from foveal.cli import main
from foveal.stores.format import ENVELOPE
from foveal.stores.references import artifacts_named


def test_commands_take_keys_and_tenant_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With them a session is read and moved; without them it is not; another tenant has nothing."""
    (tmp_path / "keys").write_text(b64encode(token_bytes(32)).decode())
    place, moved = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    store = foveal.open_store(place, keys=tmp_path / "keys", tenant="acme")
    with store, foveal.Session(store, "s", model="gpt-5") as session:
        session.append(foveal.user("a CANARY"))
        session.prompt()
    assert main(["show", "s", "--store", place]) == 2
    monkeypatch.setenv("FOVEAL_TENANT", "acme")
    assert main(["show", "s", "--store", place]) == 2
    capsys.readouterr()
    monkeypatch.setenv("FOVEAL_KEYS", str(tmp_path / "keys"))
    assert main(["store", "migrate", place, moved]) == 0
    assert main(["show", "s", "--store", moved]) == 0
    assert "CANARY" in capsys.readouterr().out
    assert b"CANARY" not in Path(moved).read_bytes()
    monkeypatch.setenv("FOVEAL_TENANT", "globex")
    assert main(["sessions", "--store", moved]) == 0
    assert "no sessions yet" in capsys.readouterr().out


READING = (
    ("show", "s"),
    ("why", "s"),
    ("view", "s", "--html", "out.html"),
    ("search", "s", "CANARY"),
    ("recall", "s", "e-1"),
    ("events", "s"),
    ("export", "s", "-o", "out.jsonl"),
    ("label", "s", "--title", "A CANARY"),
    ("sessions", "--search", "CANARY"),
)


@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_each_command_reads_with_keys_and_says_so_without(
    words: tuple[str, ...],
    tenant: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without keys the sentence names the variable; with them the command does its work, also for a tenant."""
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text(b64encode(token_bytes(32)).decode())
    store = foveal.open_store("a.db", keys="keys", tenant=tenant)
    with store, foveal.Session(store, "s", model="gpt-5") as session:
        session.append(foveal.user("a CANARY"), id="e-1")
        session.prompt()
    if tenant:
        monkeypatch.setenv("FOVEAL_TENANT", tenant)
    assert main([*words, "--store", "a.db"]) == 2
    assert "FOVEAL_KEYS" in capsys.readouterr().err
    monkeypatch.setenv("FOVEAL_KEYS", "keys")
    assert main([*words, "--store", "a.db"]) == 0


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_backup_and_doctor_with_keys_and_tenant(
    tenant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The doctor proves chains without keys and says that they would tell more; a tenant's backup holds that tenant alone."""
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text(b64encode(token_bytes(32)).decode())
    for name in ("acme", "globex"):
        store = foveal.open_store("a.db", keys="keys", tenant=name)
        with store, foveal.Session(store, "s", model="gpt-5") as session:
            session.append(foveal.assistant("", foveal.ToolCall("c1", "make", "{}")))
            session.append(foveal.result("c1", f"{name} line\n" * 60_000))
    assert main(["store", "doctor", "a.db"]) == 0
    assert "2 sessions are encrypted: their chains are proven" in capsys.readouterr().out
    monkeypatch.setenv("FOVEAL_KEYS", "keys")
    if tenant:
        monkeypatch.setenv("FOVEAL_TENANT", tenant)
    count = 1 if tenant else 2
    found = f"{count} sessions, {count * 2} entries, {count} artifacts; no damage"
    for words in (("doctor", "a.db"), ("backup", "a.db", "b.db"), ("doctor", "b.db")):
        assert main(["store", *words]) == 0
        assert found in capsys.readouterr().out or (words[0], tenant) == ("backup", None)
    with foveal.open_store("b.db") as operator:
        assert sorted(card.id for card in operator.cards()) == (["@acme:s"] if tenant else ["@acme:s", "@globex:s"])


@pytest.mark.parametrize("place", [0, 30])
def test_a_wrong_key_is_no_damage(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told as one that does not open the session, and nothing is to be saved. A wrapped key that was changed, in the name
    of its key or behind it, is damage under the right key too."""
    monkeypatch.chdir(tmp_path)
    for name in ("keys", "others"):
        Path(name).write_text(b64encode(token_bytes(32)).decode())
    store = foveal.open_store("a.db", keys="keys")
    with store, foveal.Session(store, "s", model="gpt-5") as session:
        session.append(foveal.user("hello"))
    monkeypatch.setenv("FOVEAL_KEYS", "others")
    assert main(["store", "doctor", "a.db"]) == 1
    said = capsys.readouterr().out
    assert "no damage\n1 sessions are under keys that are not at hand, and were not read; session s: this was" in said
    assert "salvage" not in said
    db = apsw.Connection("a.db")
    ((secret,),) = db.execute("SELECT secret FROM sessions WHERE id = 's'").fetchall()
    assert isinstance(secret, bytes)
    at = len(ENVELOPE) + place
    db.execute("UPDATE sessions SET secret = ?", (secret[:at] + bytes([secret[at] ^ 1]) + secret[at + 1 :],))
    db.close()
    monkeypatch.setenv("FOVEAL_KEYS", "keys")
    assert main(["store", "doctor", "a.db"]) == 1
    said = capsys.readouterr().out
    assert "salvage" in said
    assert "not at hand" not in said


def test_runs_of_sessions_without_keys_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many sessions were not read, and why, in one line; no run is made up of a session that may have none."""
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text(b64encode(token_bytes(32)).decode())
    for name in ("one", "two"):
        store = foveal.open_store("a.db", keys="keys")
        with store, foveal.Session(store, name, model="gpt-5") as session:
            session.append(foveal.user("hello"))
    assert main(["runs", "--store", "a.db"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "no runs\n2 sessions were not read, because their keys are not at hand; the first cannot be read: "
    )
    assert "open the store with its keys (`keys`, or $FOVEAL_KEYS)" in said
    assert main(["runs", "--store", "a.db", "--json"]) == 1
    assert capsys.readouterr().out.count('"needs_key": true') == 2
    monkeypatch.setenv("FOVEAL_KEYS", "keys")
    assert main(["runs", "--store", "a.db"]) == 0
    assert capsys.readouterr().out == "no runs\n"


def test_an_encrypted_title_is_not_listed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without keys and under other ones the list says the same; titles in the clear are shown."""
    monkeypatch.chdir(tmp_path)
    for name in ("keys", "others"):
        Path(name).write_text(b64encode(token_bytes(32)).decode())
    for session, keys in (("open", None), ("sealed", "keys")):
        with foveal.open_store("a.db", keys=keys) as store:
            foveal.Session(store, session, model="gpt-5").close()
            store.entitle(session, "A title")
    for keys in (None, "others"):
        if keys:
            monkeypatch.setenv("FOVEAL_KEYS", keys)
        assert main(["sessions", "--store", "a.db"]) == 0
        said = capsys.readouterr().out
        assert "open (A title)" in said
        assert "sealed ([unreadable: its key is not at hand])" in said


def test_a_tenant_is_not_told_of_the_damaged_sessions_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only that the file is damaged, and how its own sessions are; the doctor of the whole file refuses a tenant."""
    monkeypatch.chdir(tmp_path)
    for tenant, name in (("acme", "salaries"), ("globex", "chat")):
        with (
            foveal.open_store("a.db", tenant=tenant) as store,
            foveal.Session(store, name, model="gpt-5") as session,
        ):
            session.append(foveal.assistant("", foveal.ToolCall("c1", "make", "{}")))
            session.append(foveal.result("c1", foveal.keep_stream(store, [tenant.encode()])))
    with foveal.open_store("a.db", tenant="acme") as store:
        (sha256,) = artifacts_named(store.rows("salaries"))
        store.artifacts_for("salaries").delete(sha256, unless_put_after_ms=1 << 60)
    monkeypatch.setenv("FOVEAL_TENANT", "globex")
    assert main(["store", "doctor", "a.db"]) == 1
    told = capsys.readouterr().out
    assert "a.db: the file is damaged" in told
    assert "1 sessions, 2 entries, 1 artifacts; 1 damaged" in told
    assert "foveal store migrate a.db" in told
    assert "salaries" not in told
    assert main(["doctor", "a.db"]) == 2
    assert capsys.readouterr().out == ""


def test_a_tenant_of_a_file_that_cannot_be_read_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of its sessions cannot be proven: that is all, and no session of others is named."""
    monkeypatch.chdir(tmp_path)
    for tenant, name in (("acme", "salaries"), ("globex", "chat")):
        with foveal.open_store("a.db", tenant=tenant) as store, foveal.Session(store, name, model="gpt-5") as session:
            session.append(foveal.user("hello"))
    db = apsw.Connection("a.db")
    for (trigger,) in list(db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")):
        db.execute(f'DROP TRIGGER "{trigger}"')
    db.execute("UPDATE sessions SET entries = 9 WHERE id != ''")
    db.close()
    monkeypatch.setenv("FOVEAL_TENANT", "globex")
    assert main(["store", "doctor", "a.db"]) == 1
    told = capsys.readouterr().out
    assert "It cannot be read as it is" in told
    assert "salaries" not in told
