"""Tenants and keys over any store: the promises of the port, and nothing of it for anybody else."""

import io
import time
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from secrets import token_bytes
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="the extra `keys` is not installed")

import foveal
from foveal.recall.search import search
from foveal.stores.chain import link, seed
from foveal.stores.deletion import delete_expired, delete_sessions
from foveal.stores.examination import examine_store
from foveal.stores.format import ENVELOPE
from foveal.stores.keys import LocalKeys, RememberedKeys, read_keys
from foveal.stores.memory import MemoryStore
from foveal.stores.moving import move_sessions
from foveal.stores.port import KeptNote, Store
from foveal.stores.portable import export_session, import_session
from foveal.stores.private import PrivateStore
from foveal.stores.references import artifacts_named
from foveal.stores.rows import UNREADABLE
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.doctor import examine
from foveal.testing.store_contract import StoreContract, draft, drafts, refused
from foveal.testing.tenant_probes import EMPTY, REFUSED
from foveal.values.errors import BadInput, NotFound, StoreCorrupt, StoreError

WORD = "CANARY"


def some_keys(*, count: int = 1) -> LocalKeys:
    return LocalKeys(" ".join(b64encode(token_bytes(32)).decode() for _ in range(count)), "the test")


class _PrivateContract(StoreContract):
    """The contract, but for the hashes in tombstones: they are of the names and bytes that the store below has."""

    def test_a_deleted_session_is_gone_and_leaves_a_tombstone(self) -> None:
        """The tombstone has the hash of the log as it was kept, which is proven without any key."""
        with self._opened() as store:
            assert isinstance(store, PrivateStore)
            writer = store.acquire("b")
            writer.append(drafts(3), snapshot=b"view")
            writer.release()
            name = store._prefix + "b"
            chain = seed(name)
            for row in store._inner.rows(name):
                chain = link(chain, row)
            (tombstone,) = store.delete(["b"])
            assert store.tombstones() == [tombstone]
            assert (tombstone.seed, tombstone.chain, tombstone.entries) == (seed(name).hex(), chain.hex(), 3)
            with refused(NotFound):
                store.rows("b")


class _Service:
    """A service for keys that counts its calls."""

    def __init__(self) -> None:
        self._keys = some_keys()
        self.wraps = self.unwraps = 0

    def wrap(self, data_key: bytes, context: bytes) -> bytes:
        self.wraps += 1
        return self._keys.wrap(data_key, context)

    def unwrap(self, wrapped: bytes, context: bytes) -> bytes:
        self.unwraps += 1
        return self._keys.unwrap(wrapped, context)


def test_a_service_is_asked_once_for_a_session_and_an_artifact(tmp_path: Path) -> None:
    """However often the session is opened and the artifact read through a handle; another handle asks anew."""
    service = _Service()
    for number in range(2):
        with foveal.open_store(tmp_path / "a.db", keys=service) as store:
            before = service.wraps, service.unwraps
            card = store.artifacts.put([b"x" * 700_000])
            for _ in range(5):
                writer = store.acquire("s")
                writer.append([draft(f"e{number}")])
                writer.release()
                assert b"".join(store.artifacts.read(card.sha256)) == b"x" * 700_000
            assert (service.wraps - before[0], service.unwraps - before[1]) == (2 - number, number)


def test_a_remembered_key_ends_with_its_time_and_its_session() -> None:
    """After five minutes the service is asked again, so that a revoked key ends; forgetting ends it at once."""
    service, now_s = _Service(), [0.0]
    keys = RememberedKeys(service, clock_s=lambda: now_s[0])
    wrapped = keys.wrap(b"k" * 32, b"s")
    assert (keys.unwrap(wrapped, b"s"), service.unwraps) == (b"k" * 32, 0)
    for expected in (1, 1):
        now_s[0] = 301.0
        assert (keys.unwrap(wrapped, b"s"), service.unwraps) == (b"k" * 32, expected)
    keys.forget(b"other")
    keys.unwrap(wrapped, b"s")
    assert service.unwraps == 1
    keys.forget(b"s")
    keys.unwrap(wrapped, b"s")
    assert service.unwraps == 2
    with refused(StoreError):
        keys.unwrap(wrapped, b"other")


def test_an_envelope_that_was_not_needed_is_used_for_its_session_alone() -> None:
    """A session that is deleted and made again through the same handle is encrypted under a key that nothing was under before."""
    inner, service = MemoryStore(), _Service()
    store = PrivateStore(inner, keys=service)
    secrets = list[bytes]()
    for _ in range(3):
        for _ in range(2):
            store.acquire("s").release()
        secrets.append(inner.secret("s"))
        store.delete(["s"])
    assert len(set(secrets)) == 3
    assert all(secret.startswith(ENVELOPE) for secret in secrets)


def test_an_operator_with_keys_moves_the_artifacts_of_tenants(tmp_path: Path) -> None:
    """All tenants' sessions are read, copied and proven with their artifacts, and each tenant finds its own in the new store."""
    keys = some_keys()
    for tenant in ("acme", "globex"):
        store = foveal.open_store(tmp_path / "a.db", keys=keys, tenant=tenant)
        with store, foveal.Session(store, "s", model="gpt-5") as session:
            session.append(foveal.assistant("", foveal.ToolCall("c1", "make", "{}")))
            session.append(foveal.result("c1", f"{tenant} line\n" * 60_000))
    with (
        foveal.open_store(tmp_path / "a.db", keys=keys) as source,
        foveal.open_store(tmp_path / "b.db", keys=keys) as copy,
    ):
        assert move_sessions(source, copy).artifacts == 2
        report = examine_store(copy, "copy")
        assert (report.damage, report.artifacts, report.encrypted) == ((), 2, 0)
    for tenant in ("acme", "globex"):
        with foveal.open_store(tmp_path / "b.db", keys=keys, tenant=tenant) as store:
            (name,) = set(artifacts_named(store.rows("s")))
            assert b"".join(store.artifacts.read(name)).startswith(tenant.encode())


def test_without_keys_nothing_is_moved_or_exported_in_part(tmp_path: Path) -> None:
    """Which artifacts an encrypted session names could not be told: the sentence says what to give."""
    with foveal.open_store(tmp_path / "a.db", keys=some_keys()) as store:
        store.acquire("s").append([draft("e")])
    with foveal.open_store(tmp_path / "a.db") as store, MemoryStore() as target:
        for act in (lambda: move_sessions(store, target), lambda: export_session(store, "s", io.BytesIO())):
            with refused(StoreError, "'s' is encrypted", "FOVEAL_KEYS"):
                act()
        assert target.cards() == []
        assert examine_store(store, "here").encrypted == 1
    assert examine(tmp_path / "a.db").encrypted == 1


def test_without_keys_an_encrypted_session_is_not_deleted(tmp_path: Path) -> None:
    """Its artifacts could not be told and would stay, readable with the wrapping key: the sentence says what to give."""
    keys = some_keys()
    with foveal.open_store(tmp_path / "a.db", keys=keys) as store:
        speak(store, "s")
    with foveal.open_store(tmp_path / "a.db") as store:
        for act in (lambda: delete_sessions(store, ["s"]), lambda: delete_expired(store, 1 << 50)):
            with refused(StoreError, "Nothing was deleted", "FOVEAL_KEYS"):
                act()
        assert len(store.cards()) == 1
    with foveal.open_store(tmp_path / "a.db", keys=keys) as store:
        assert (delete_sessions(store, ["s"]).artifacts, store.kept_artifacts()) == (1, [])


def test_a_session_under_a_lost_key_can_be_deleted(tmp_path: Path) -> None:
    """Which artifacts it named is not known: the outcome says so, and that they go with `vacuum`."""
    with foveal.open_store(tmp_path / "a.db", keys=some_keys()) as store:
        speak(store, "s")
    with foveal.open_store(tmp_path / "a.db", keys=some_keys()) as store:
        done = delete_sessions(store, ["s"])
        assert (done.sessions, store.cards()) == (("s",), [])
        assert "`foveal store vacuum` removes" in done.left[0]


def test_a_session_that_is_there_is_opened_by_a_key_that_can_only_unwrap() -> None:
    """Nothing is wrapped for it: a role of a service that may only decrypt reads and continues it."""
    inner, service = MemoryStore(), _Service()
    PrivateStore(inner, keys=service).acquire("s").release()
    before = service.wraps
    with foveal.Session(PrivateStore(inner, keys=service), "s", model="gpt-5") as session:
        session.append(foveal.user(WORD))
    assert (service.wraps, service.unwraps) == (before, 1)


def test_a_session_that_is_deleted_while_it_is_opened_is_made_under_a_new_key() -> None:
    """Its old data key, which was at hand, is not used again."""

    class Deleted(MemoryStore):
        is_deleted = False

        def load(self, session: str, **given):  # type: ignore[override]
            if not self.is_deleted and self.cards(session):
                self.is_deleted = True
                self.delete([session])
            return super().load(session, **given)

    inner = Deleted()
    store = PrivateStore(inner, keys=some_keys())
    store.acquire("s").release()
    old = inner.secret("s")
    store.acquire("s").append([draft("e")])
    assert inner.is_deleted
    assert inner.secret("s") != old
    assert inner.secret("s").startswith(ENVELOPE)


def test_a_page_of_titled_sessions_asks_the_store_once_for_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; and the service for keys once for each, however often they are listed."""
    inner, service = MemoryStore(), _Service()
    store = PrivateStore(inner, keys=service)
    for number in range(20):
        store.acquire(f"s{number:02}").release()
        store.entitle(f"s{number:02}", f"title {number}")
    asked = list[int]()
    secrets = inner.secrets
    monkeypatch.setattr(inner, "secrets", lambda names: asked.append(len(names)) or secrets(names))
    monkeypatch.setattr(inner, "secret", lambda name: pytest.fail(f"{name} was asked for alone"))
    listing = PrivateStore(inner, keys=service)
    for _ in range(2):
        assert [card.title for card in listing.page()] == [f"title {number}" for number in range(20)]
    assert (asked, service.unwraps) == ([20], 20)


def test_a_title_under_another_key_keeps_nobody_from_the_list() -> None:
    """It is told as unreadable, with a lost key and with a stale one; the others are listed, searched and deleted."""
    inner = MemoryStore()
    lost, store = (PrivateStore(inner, keys=some_keys()) for _ in range(2))
    for one, name in ((lost, "lost"), (store, "good")):
        speak(one, name)
        one.entitle(name, f"title of {name}")
    assert {card.id: card.title for card in store.cards()} == {"lost": UNREADABLE, "good": "title of good"}
    assert [card.id for card in store.page()] == ["good", "lost"]
    assert delete_sessions(store, ["lost"]).sessions == ("lost",)
    assert delete_sessions(store, ["good"]).sessions == ("good",)


def test_a_handle_that_remembers_an_old_key_writes_titles_and_notes_under_the_new_one() -> None:
    """Another handle has deleted the session and made it again: everybody reads the title and the note."""
    inner, keys = MemoryStore(), some_keys()
    one, two = (PrivateStore(inner, keys=keys) for _ in range(2))
    one.acquire("s", scope="p").release()
    one.entitle("s", "first")
    two.delete(["s"])
    two.acquire("s", scope="p").release()
    one.entitle("s", "second")
    one.scope("p").keep(KeptNote("k", "kept", "s", "me", 1))
    assert [store.cards()[0].title for store in (one, two)] == ["second", "second"]
    assert [store.scope("p").notes()[0].text for store in (one, two)] == ["kept", "kept"]
    one.delete(["s"])
    one.acquire("s", scope="p").release()
    one.entitle("s", "third")
    assert two.cards()[0].title == "third"


def test_without_keys_an_encrypted_session_gets_no_title_and_no_note(path: Path) -> None:
    """They would be in the clear, where whoever has the keys expects them to be encrypted."""
    with PrivateStore(SqliteStore(path), keys=some_keys()) as store:
        store.acquire("s", scope="p").release()
    memory, note = MemoryStore(), KeptNote("k", "plain text", "s", "me", 1)
    PrivateStore(memory, keys=some_keys()).acquire("s", scope="p").release()
    for store in (SqliteStore(path), memory):
        with store:
            for act in (
                lambda store=store: store.entitle("s", "hello"),
                lambda store=store: store.scope("p").keep(note),
            ):
                with refused(StoreError, "'s' is encrypted", "FOVEAL_KEYS"):
                    act()
            store.entitle("s", None)
            assert store.tag("s", add=["release"]) == ("release",)


def test_the_index_of_a_deleted_session_is_forgotten() -> None:
    """Its words were in the memory of the handle."""
    store = PrivateStore(MemoryStore(), keys=some_keys())
    speak(store, "s")
    assert search(store, "s", WORD)
    store.delete(["s"])
    assert not [known for known in store._indexes if known[0] == "s"]


class _ForgottenAtOnce(OrderedDict[str, Any]):
    """A memory from which another thread takes whatever somebody has just looked at."""

    def get(self, key: str, default: Any = None) -> Any:
        found = super().get(key, default)
        self.pop(key, None)
        return found


def test_a_key_that_is_forgotten_while_it_is_used_is_found_again() -> None:
    """A session may be deleted by another thread between any two looks into the memory of data keys: its reader finds the key, or
    asks for it, and meets no error that is not Foveal's own."""
    store = PrivateStore(MemoryStore(), keys=some_keys())
    store.acquire("s").append([draft("e")])
    store._data_keys = _ForgottenAtOnce(store._data_keys)
    for _ in range(3):
        assert store.artifacts_for("s").kept("0" * 64)
        assert [row.id for row in store.rows("s")] == ["e"]


def test_a_title_is_encrypted_and_a_tag_is_not(tmp_path: Path) -> None:
    """The store's file has the tag and no word of the title; another tenant lists neither."""
    keys = some_keys()
    inner = SqliteStore(tmp_path / "a.db")
    store, other = (PrivateStore(inner, tenant=tenant, keys=keys) for tenant in ("acme", "globex"))
    store.acquire("s").release()
    store.entitle("s", f"About a {WORD}")
    store.tag("s", add=["release"])
    assert [(card.id, card.title, card.tags) for card in store.page(tag="release")] == [
        ("s", f"About a {WORD}", ("release",))
    ]
    assert other.page(tag="release") == []
    inner.close()
    data = (tmp_path / "a.db").read_bytes()
    assert (WORD.encode() in data, b"release" in data) == (False, True)


class TestTenant(_PrivateContract):
    def make_store(self) -> Store:
        return PrivateStore(MemoryStore(), tenant="acme")


class TestKeys(_PrivateContract):
    def make_store(self) -> Store:
        return PrivateStore(MemoryStore(), keys=some_keys())


class TestTenantWithKeysInAFile(_PrivateContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path, self.keys = tmp_path / "store.db", some_keys()

    def make_store(self) -> Store:
        return PrivateStore(SqliteStore(self.path), tenant="acme", keys=self.keys)

    def reopen(self, store: Store) -> Store:
        store.close()
        return self.make_store()

    def second_handle(self, store: Store) -> Store:
        return self.make_store()


def speak(store: Store, name: str, word: str = WORD, *, scope: str | None = None) -> None:
    """A session that says a word, in a message, a large result, a note and a snapshot."""
    policy = foveal.Policy(memory=scope) if scope else None
    with foveal.Session(store, name, model="gpt-5", policy=policy) as session:
        session.append(foveal.user(f"{word} " * 50))
        session.append(foveal.assistant("", foveal.ToolCall("call", "run", "{}")))
        session.append(foveal.result("call", f"{word} result\n" * 30_000))
        session.prompt()
        session._journal.snapshot_soon()
        session.append(foveal.assistant(word))
        if scope:
            store.scope(scope).keep(KeptNote("colour", word, name, "host", 5))


def files_with(folder: Path, word: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_nothing_is_readable_in_any_file(path: Path) -> None:
    """Payloads, snapshots, artifacts, sidecars, notes and search indexes: the word is in no file, and is read with the keys."""
    with PrivateStore(SqliteStore(path), keys=some_keys()) as store:
        speak(store, "s", scope="people")
        assert search(store, "s", WORD)
        assert store.scope("people").notes()[0].text == WORD
        assert store.snapshot("s")
        assert files_with(path.parent, WORD) == []
    assert files_with(path.parent, WORD) == []
    assert examine(path).damage == ()  # proven without a key


def test_a_prompt_is_the_same_with_keys_and_without(path: Path) -> None:
    """Encryption is below everything that a prompt is made of; the session's own secret is inside the envelope."""
    prompts = []
    for store in (MemoryStore(), PrivateStore(SqliteStore(path), tenant="acme", keys=some_keys())):
        store.acquire("s", secret=b"s" * 32).release()
        with foveal.Session(store, "s", model="gpt-5") as session:
            for number in range(3):
                session.append(foveal.user(f"question {number}"), id=f"u{number}")
                session.append(foveal.assistant(f"answer {number}"), id=f"a{number}")
        with foveal.Session(store, "s", model="gpt-5") as session:
            prompts.append(session.prompt().request)
    assert prompts[0] == prompts[1]


def test_whoever_has_no_key_or_another_one_is_told_so(path: Path) -> None:
    """Without keys a session cannot be read; with others the error names the missing one; with more keys it can."""
    old, new = (b64encode(token_bytes(32)).decode() for _ in range(2))
    with PrivateStore(SqliteStore(path), keys=LocalKeys(old, "here")) as store:
        speak(store, "s")
    with SqliteStore(path) as store, pytest.raises(StoreError, match="is encrypted; open the store with its keys"):
        foveal.Session(store, "s", model="gpt-5")
    with PrivateStore(SqliteStore(path), keys=LocalKeys(new, "there")) as store:
        with pytest.raises(StoreError, match="not among the 1 of there"):
            store.acquire("s")
        speak(store, "t")
    with PrivateStore(SqliteStore(path), keys=LocalKeys(f"{old}\n{new}", "both")) as store:
        assert [len(list(store.rows(name))) for name in "st"] == [5, 5]
        assert b"".join(store.artifacts.read(next(_named(store, "s")))).startswith(WORD.encode())


def _named(store: Store, session: str) -> Iterator[str]:
    return artifacts_named(store.rows(session))


def test_deleting_destroys_the_key(path: Path) -> None:
    """A copy of every byte of the log, kept from before, cannot be read by anybody who has all that is left, keys included."""
    keys = some_keys()
    with PrivateStore(SqliteStore(path), keys=keys) as store:
        speak(store, "s")
        kept = list(store._inner.rows("s"))
        envelope = store._inner.secret("s")
        done = delete_sessions(store, ["s"])
        assert (len(done.tombstones), done.artifacts) == (1, 1)
        assert not store.artifacts._inner._inner.names()  # type: ignore[attr-defined]
        writer = store._inner.acquire("s")  # somebody puts the copy back
        writer.append([draft(row.id, row.payload) for row in kept])
        with pytest.raises(StoreError):
            [foveal.stores.rows.to_entry(row, "s") for row in store.rows("s")]
    assert not [file for file in path.parent.rglob("*") if file.is_file() and envelope in file.read_bytes()]


def test_an_envelope_of_another_session_does_not_open(path: Path) -> None:
    """A data key belongs to the name of its session: put into another session's record, it is refused."""
    keys = some_keys()
    with PrivateStore(SqliteStore(path), keys=keys) as store:
        speak(store, "s")
        store._inner.acquire("thief", secret=store._inner.secret("s")).release()
        with pytest.raises(StoreError, match="belongs to another session"):
            store.rows("thief")


def test_a_segment_that_is_changed_or_cut_off_is_found() -> None:
    """Each bit of an artifact is proven; a cut between segments is found as well as one within."""
    below = MemoryStore()
    store = PrivateStore(below, keys=some_keys())
    data = bytes(range(256)) * 1024
    name = store.artifacts.put([data]).sha256
    (kept,) = below.artifacts._kept
    whole = below.artifacts._kept[kept]
    stride = (1 << 16) + 16
    header = len(whole) - 4 * stride
    for damaged in (whole[:-1], whole[: header + 3 * stride], whole[:500] + b"\0" + whole[501:], whole[:header]):
        below.artifacts._kept[kept] = damaged
        with pytest.raises(StoreCorrupt):
            list(store.artifacts.read(name))
    below.artifacts._kept[kept] = whole[: header + 3 * stride]
    with pytest.raises(StoreCorrupt, match="segment 3 was changed or cut off"):
        store.artifacts.span(name, 3 * (1 << 16) - 6, 12)
    below.artifacts._kept[kept] = whole
    assert b"".join(store.artifacts.read(name)) == data
    assert store.artifacts.span(name, 65_530, 12) == data[65_530:65_542]


def test_a_backup_has_the_artifacts_of_encrypted_sessions_and_of_tenants(tmp_path: Path) -> None:
    """Which artifacts are named is not known without keys, so all are copied; those of a tenant under its own names."""
    for number, keys in enumerate((some_keys(), None)):
        path, copy = tmp_path / f"{number}.db", tmp_path / f"{number}-copy.db"
        with PrivateStore(SqliteStore(path), tenant="acme", keys=keys) as store:
            speak(store, "s")
        assert back_up(path, copy).damage == ()
        with PrivateStore(SqliteStore(copy), tenant="acme", keys=keys) as store:
            assert b"".join(store.artifacts.read(next(_named(store, "s")))).startswith(WORD.encode())


def test_sessions_move_between_stores_with_keys_and_without(tmp_path: Path) -> None:
    """Moving and exporting read with one set of keys and write with another: so a store is encrypted, or its key changed."""
    plain = SqliteStore(tmp_path / "plain.db")
    speak(plain, "s")
    sealed = PrivateStore(SqliteStore(tmp_path / "sealed.db"), keys=some_keys())
    assert move_sessions(plain, sealed).sessions == 1
    assert files_with(tmp_path, WORD) != []
    assert list(sealed.rows("s")) == list(plain.rows("s"))
    file = io.BytesIO()
    export_session(sealed, "s", file)
    file.seek(0)
    other = PrivateStore(MemoryStore(), tenant="acme", keys=some_keys())
    import_session(other, file)
    assert list(other.rows("s")) == list(plain.rows("s"))
    assert b"".join(other.artifacts.read(next(_named(other, "s")))).startswith(WORD.encode())
    for store in (plain, sealed, other):
        store.close()


def test_keys_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hold keys in base64; whatever is no key is refused, and the error does not show it."""
    key = b64encode(token_bytes(32)).decode()
    (tmp_path / "keys").write_text(f"{key}\n")
    monkeypatch.setenv("SOME_KEYS", key)
    wrapped = read_keys(tmp_path / "keys").wrap(b"data", b"context")
    assert read_keys("env:SOME_KEYS").unwrap(wrapped, b"context") == b"data"
    monkeypatch.setenv("SOME_KEYS", "s3cret")
    for place, words in (
        ("env:NONE", "no variable"),
        (tmp_path / "no", "cannot be read"),
        ("env:SOME_KEYS", "32 bytes"),
    ):
        with pytest.raises(BadInput, match=words) as refusal:
            read_keys(place)
        assert "s3cret" not in str(refusal.value)
    with foveal.open_store(tmp_path / "a.db", keys=tmp_path / "keys", tenant="acme") as store:
        speak(store, "s")
    assert files_with(tmp_path, WORD) == []


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("way", [*REFUSED, *EMPTY])
def test_nothing_of_another_tenant_can_be_reached(way: str, has_keys: bool) -> None:
    """Every method, with the other's own names, the names that the store below has, and names that climb: nothing is found, and
    all of the other's is as it was."""
    below, keys = MemoryStore(), some_keys() if has_keys else None
    acme, evil = (PrivateStore(below, tenant=name, keys=keys) for name in ("acme", "acm"))
    speak(acme, "s", scope="people")
    acme.acquire("gone").release()
    acme.delete(["gone"])
    sha256 = next(_named(acme, "s"))
    acme.artifacts.write_sidecar(sha256, b"derived")
    before = (acme.cards(), list(acme.rows("s")), acme.scope("people").notes(), acme.artifacts.sidecar(sha256))
    for name in ("s", "@acme:s", ":s", "e:s", "../@acme:s", "", "@acm:s"):
        if way in REFUSED:
            with pytest.raises((NotFound, BadInput)):
                REFUSED[way](evil, name, sha256)
        else:
            assert not EMPTY[way](evil, name, sha256)
    after = (acme.cards(), list(acme.rows("s")), acme.scope("people").notes(), acme.artifacts.sidecar(sha256))
    assert before == after
    assert list(acme.artifacts.read(sha256))


def test_tenants_with_the_same_names_and_bytes_have_each_their_own() -> None:
    """Sessions of one name, artifacts of the same bytes: the deletion of one leaves the other."""
    below = MemoryStore()
    one, two = (PrivateStore(below, tenant=name) for name in ("one", "two"))
    speak(one, "s")
    speak(two, "s")
    time.sleep(0.002)
    assert delete_sessions(one, ["s"]).artifacts == 1
    assert one.cards() == []
    assert len(list(two.rows("s"))) == 5
    assert list(two.artifacts.read(next(_named(two, "s"))))
    assert [card.id for card in below.cards()] == ["@two:s"]
    time.sleep(0.002)
    assert delete_sessions(below, ["@two:s"]).artifacts == 1  # the operator's own handle


@pytest.mark.parametrize("name", ["", "a/b", "a:b", "@a", "é", "x" * 65, "a\n"])
def test_a_tenant_has_a_plain_name(name: str) -> None:
    """Nothing that could be taken for the rest of a session's name."""
    with pytest.raises(BadInput, match="cannot name a tenant"):
        foveal.open_store(tenant=name)
