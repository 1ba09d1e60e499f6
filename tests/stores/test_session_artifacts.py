"""The place of a session's artifacts: one method of the store decides it, for whoever writes, reads, copies or deletes them."""

from base64 import b64encode
from io import BytesIO
from pathlib import Path
from secrets import token_bytes

import pytest

pytest.importorskip("cryptography", reason="the extra `keys` is not installed")

import foveal
from foveal.stores.deletion import delete_sessions
from foveal.stores.encrypted_artifacts import EncryptedArtifacts
from foveal.stores.examination import examine_store
from foveal.stores.keys import LocalKeys
from foveal.stores.memory import MemoryStore
from foveal.stores.moving import move_sessions
from foveal.stores.port import Artifacts, Store
from foveal.stores.portable import export_session, import_session
from foveal.stores.private import PrivateStore
from foveal.stores.references import artifacts_named
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.doctor import examine
from foveal.stores.tenants import TenantArtifacts
from foveal.values.entry import Stored
from foveal.values.errors import NotFound

LARGE = "CANARY of a large result\n" * 12_000


def some_keys() -> LocalKeys:
    return LocalKeys(b64encode(token_bytes(32)).decode(), "the test")


def speak(store: Store, name: str, result: str | Stored = LARGE) -> str:
    """Keep a session with one large result, and return the id of its entry."""
    with foveal.Session(store, name, model="gpt-5") as session:
        session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
        return session.append(foveal.result("call", result)).id


def recalled(store: Store, name: str, entry: str) -> str:
    with foveal.Session(store, name, model="gpt-5") as session:
        return session.recall(entry)


def kept_bytes(store: MemoryStore) -> list[bytes]:
    return list(store.artifacts._kept.values())


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_keys_that_are_set_later_leave_the_artifacts_of_earlier_sessions_readable(tenant: str | None) -> None:
    """A session that was there before stays in the clear, and so do its artifacts, those included that it keeps from then on."""
    inner = MemoryStore()
    before = inner if tenant is None else PrivateStore(inner, tenant=tenant)
    entry = speak(before, "old")
    keyed = PrivateStore(inner, tenant=tenant, keys=some_keys())
    assert recalled(keyed, "old", entry) == LARGE
    assert examine_store(keyed, "here").damage == ()
    later = LARGE.replace("CANARY", "PARROT")
    with foveal.Session(keyed, "old", model="gpt-5") as session:
        session.append(foveal.assistant("", foveal.ToolCall("again", "run", "{}")))
        newer = session.append(foveal.result("again", later)).id
    assert recalled(before, "old", newer) == later


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_a_session_in_the_clear_and_an_encrypted_one_keep_the_same_bytes_apart(tenant: str | None) -> None:
    """Neither takes the place of the other: what is encrypted stays so, and what is in the clear is read without keys."""
    inner = MemoryStore()
    before = inner if tenant is None else PrivateStore(inner, tenant=tenant)
    keyed = PrivateStore(inner, tenant=tenant, keys=some_keys())
    old, new = speak(before, "old"), speak(keyed, "new")
    assert sorted(LARGE.encode() == data for data in kept_bytes(inner)) == [False, True]
    assert recalled(before, "old", old) == recalled(keyed, "old", old) == recalled(keyed, "new", new) == LARGE


def test_moving_to_a_store_with_keys_encrypts_sessions_with_their_artifacts(tmp_path: Path) -> None:
    """The promise of docs/security.md: no byte of the result is in the clear there, and it is read with the keys."""
    keys = some_keys()
    with foveal.open_store(tmp_path / "plain.db") as store:
        entry = speak(store, "chat")
    with (
        foveal.open_store(tmp_path / "plain.db", keys=keys) as source,
        foveal.open_store(tmp_path / "sealed.db", keys=keys) as target,
    ):
        assert move_sessions(source, target).artifacts == 1
        assert recalled(target, "chat", entry) == LARGE
    sealed = [file for file in tmp_path.rglob("*") if file.is_file() and "sealed" in str(file)]
    assert sealed
    assert not [file for file in sealed if b"CANARY" in file.read_bytes()]


def test_deleting_an_earlier_session_with_keys_removes_its_artifacts() -> None:
    """They are in the clear, and lie where they were put."""
    inner = MemoryStore()
    speak(inner, "old")
    assert delete_sessions(PrivateStore(inner, keys=some_keys()), ["old"]).artifacts == 1
    assert kept_bytes(inner) == []


def _earlier_place(inner: MemoryStore, tenant: str | None, keys: LocalKeys) -> Artifacts:
    return EncryptedArtifacts(TenantArtifacts(inner.artifacts, tenant or ""), keys)


@pytest.mark.parametrize("tenant", [None, "acme"])
@pytest.mark.parametrize("is_encrypted", [True, False])
def test_artifacts_are_read_where_earlier_versions_put_them_under_keys(
    tenant: str | None, *, is_encrypted: bool
) -> None:
    """They were encrypted for every session of a handle with keys, under the names of a tenant's artifacts in the clear."""
    inner, keys = MemoryStore(), some_keys()
    keyed = PrivateStore(inner, tenant=tenant, keys=keys)
    first = keyed if is_encrypted else PrivateStore(inner, tenant=tenant)
    first.acquire("s").release()
    card = _earlier_place(inner, tenant, keys).put([LARGE.encode()])
    entry = speak(keyed, "s", Stored(card.sha256, card.size_bytes, card.lines, card.head, card.tail))
    assert recalled(keyed, "s", entry) == LARGE
    assert delete_sessions(keyed, ["s"]).artifacts == 1


def test_a_session_that_is_named_like_a_tenants_is_whole_for_every_verb(tmp_path: Path) -> None:
    """Without tenants, too: doctor, export, backup, move and deletion find the artifacts of `@alice:chat` where it put them."""
    path = tmp_path / "a.db"
    with SqliteStore(path) as store:
        speak(store, "@alice:chat")
        assert export_session(store, "@alice:chat", BytesIO()).artifacts == 1
        assert move_sessions(store, MemoryStore()).artifacts == 1
    assert (examine(path).damage, examine(path).artifacts) == ((), 1)
    assert (back_up(path, tmp_path / "copy.db").damage, examine(tmp_path / "copy.db").artifacts) == ((), 1)
    with SqliteStore(path) as store:
        assert delete_sessions(store, ["@alice:chat"]).artifacts == 1
        assert store.artifacts.names() == []


def test_artifacts_that_an_earlier_version_put_for_such_a_name_are_found() -> None:
    """It put them under their own hash, as those of no tenant."""
    store = MemoryStore()
    stored = foveal.keep_stream(store, [LARGE.encode()])
    entry = speak(store, "@alice:chat", stored)
    assert recalled(store, "@alice:chat", entry) == LARGE
    assert examine_store(store, "here").damage == ()
    assert delete_sessions(store, ["@alice:chat"]).artifacts == 1


def test_a_tenants_own_session_may_be_named_like_another_tenants() -> None:
    """Its artifacts are the tenant's, and go with it; the other tenant's artifact of the same bytes stays."""
    inner = MemoryStore()
    acme, bob = (PrivateStore(inner, tenant=tenant) for tenant in ("acme", "bob"))
    speak(acme, "@bob:chat")
    entry = speak(bob, "chat")
    assert delete_sessions(acme, ["@bob:chat"]).artifacts == 1
    assert recalled(bob, "chat", entry) == LARGE


@pytest.mark.parametrize("has_keys", [False, True])
def test_an_operator_reads_the_artifacts_of_a_tenants_session(*, has_keys: bool) -> None:
    """By the name that the session has in the store; and a tenant does not read those of no tenant."""
    inner, keys = MemoryStore(), some_keys() if has_keys else None
    acme = PrivateStore(inner, tenant="acme", keys=keys)
    operator = PrivateStore(inner, keys=keys) if keys else inner
    entry = speak(acme, "chat")
    assert recalled(operator, "@acme:chat", entry) == LARGE
    stored = foveal.keep_stream(operator, [b"the operator's"])
    with pytest.raises(NotFound):
        acme.artifacts_for("chat").read(stored.sha256)


def test_a_tenants_session_that_an_operator_exported_is_imported_by_the_tenant() -> None:
    """Under its name in the export, its artifacts are read by whoever imported it."""
    inner = MemoryStore()
    acme = PrivateStore(inner, tenant="acme")
    entry = speak(acme, "chat")
    file = BytesIO()
    export_session(inner, "@acme:chat", file)
    delete_sessions(acme, ["chat"])
    file.seek(0)
    import_session(acme, file)
    assert recalled(acme, "@acme:chat", entry) == LARGE
    (name,) = set(artifacts_named(acme.rows("@acme:chat")))
    assert b"".join(acme.artifacts.read(name)) == LARGE.encode()
