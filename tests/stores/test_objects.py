"""Artifacts in object stores: in memory, and on a server that speaks S3."""

import http.client
import http.server
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

pytest.importorskip("obstore", reason="the extra `objects` is not installed")

import obstore
from obstore.exceptions import PermissionDeniedError

from foveal.stores.artifacts import FileArtifacts
from foveal.stores.artifacts_place import open_artifacts
from foveal.stores.encrypted_artifacts import EncryptedArtifacts
from foveal.stores.keys import LocalKeys
from foveal.stores.memory import MemoryStore
from foveal.stores.objects import SPOOL_BYTES, ObjectArtifacts
from foveal.stores.port import Artifacts, Store
from foveal.testing.store_contract import StoreContract
from foveal.values.errors import BadInput, StoreCorrupt, StoreError, StoreUnavailable

ROOT = Path(__file__).parents[2]


class _WithArtifacts(MemoryStore):
    def __init__(self, artifacts: Artifacts) -> None:
        super().__init__()
        self.artifacts = artifacts  # pyright: ignore[reportAttributeAccessIssue]

    def stats(self):
        self.artifacts, kept = MemoryStore().artifacts, self.artifacts  # its own count is of its own artifacts
        try:
            return super().stats()
        finally:
            self.artifacts = kept


class TestObjectsInMemory(StoreContract):
    def make_store(self) -> Store:
        return _WithArtifacts(ObjectArtifacts("memory:///"))


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of an S3 server of this worker's own."""
    program = next(
        (
            found
            for name in (os.environ.get("FOVEAL_MOTO", "moto_server"), str(ROOT / ".venv-moto/bin/moto_server"))
            if (found := shutil.which(name))
        ),
        None,
    )
    if program is None:
        pytest.skip("no S3 server: python -m venv .venv-moto && .venv-moto/bin/pip install 'moto[server,s3]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=quiet, stderr=quiet)
    try:
        _wait_for(port, process)
        yield url
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None
        time.sleep(0.1)
    raise AssertionError("the S3 server did not start")


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new bucket, whose server and keys are told by the environment."""
    name = f"test-{token_hex(6)}"
    told = {"ENDPOINT_URL": s3, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    told |= {"ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test"}
    for key, value in told.items():
        monkeypatch.setenv(f"AWS_{key}", value)
    host = s3.removeprefix("http://")
    connection = http.client.HTTPConnection(host)
    connection.request("PUT", f"/{name}")
    assert connection.getresponse().status == 200
    connection.close()
    return name


class TestObjectsOnS3(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, bucket: str) -> None:
        self.url = f"s3://{bucket}/some/prefix"

    def make_store(self) -> Store:
        return _WithArtifacts(open_artifacts(self.url))


def test_a_large_artifact_goes_through_a_file_and_its_spans_alone_are_read(bucket: str) -> None:
    """More than is held in memory, in several parts of an upload; it comes back whole, and a span is its own bytes."""
    artifacts = open_artifacts(f"s3://{bucket}")
    block = bytes(range(256)) * 4096
    count = SPOOL_BYTES // len(block) + 5
    card = artifacts.put(block for _ in range(count))
    assert card.size_bytes == count * len(block)
    assert sum(map(len, artifacts.read(card.sha256))) == card.size_bytes
    assert artifacts.span(card.sha256, SPOOL_BYTES + 3, 5) == bytes(range(3, 8))


def test_damage_in_a_bucket_is_found_and_healed_by_a_put() -> None:
    """The last chunk of bytes that do not match their name is not given; the same bytes, put again, take their place."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"sound"]).sha256
    obstore.put(artifacts._objects, f"{name[:2]}/{name}", b"rotten")
    with pytest.raises(StoreCorrupt, match="do not match"):
        list(artifacts.read(name))
    artifacts.put([b"sound"])
    assert b"".join(artifacts.read(name)) == b"sound"


def test_the_time_of_a_put_has_a_name_that_every_bucket_allows() -> None:
    """Azure takes identifiers alone, which have no hyphen, and proxies before other buckets drop headers with an underscore."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"x"]).sha256
    assert all(str(key).isalpha() for key in obstore.get(artifacts._objects, f"{name[:2]}/{name}").attributes)


def test_the_time_of_a_put_is_read_by_its_old_name_too() -> None:
    """An object that an earlier Foveal has put is safe from a deletion that began before it."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"x"]).sha256
    obstore.put(artifacts._objects, f"{name[:2]}/{name}", b"x", attributes={"foveal-put-ms": "2000"})
    assert not artifacts.delete(name, unless_put_after_ms=1999)
    assert artifacts.delete(name, unless_put_after_ms=2000)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda artifacts, name: artifacts.put([b"x"]), "put it again"),
        (lambda artifacts, name: artifacts.read(name), "may read there"),
        (lambda artifacts, name: artifacts.span(name, 0, 1), "may read there"),
        (lambda artifacts, name: artifacts.delete(name, unless_put_after_ms=1 << 50), "may delete there"),
    ],
)
def test_a_bucket_that_refuses_is_told_with_advice_for_the_act(monkeypatch: pytest.MonkeyPatch, act, said: str) -> None:
    """Who reads or deletes is not told to put the artifact again."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"x"]).sha256

    def refuse(*_: object, **__: object) -> None:
        raise PermissionDeniedError("AccessDenied")

    for verb in ("put", "get", "head"):
        monkeypatch.setattr(obstore, verb, refuse)
    with pytest.raises(StoreUnavailable, match=f"AccessDenied.*{said}"):
        act(artifacts, name)


def test_a_span_that_begins_before_an_artifact_is_refused() -> None:
    """It is not the end of it, nor an error of the library."""
    artifacts = ObjectArtifacts("memory:///")
    with pytest.raises(BadInput, match="cannot begin at byte -5"):
        artifacts.span(artifacts.put([b"x"]).sha256, -5, 3)


def test_a_put_of_the_same_bytes_is_safe_from_an_older_deletion() -> None:
    """A deletion that began before the second put leaves the object: a new log is about to name it."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"shared"]).sha256
    began_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == began_ms:
        pass
    artifacts.put([b"shared"])
    assert not artifacts.delete(name, unless_put_after_ms=began_ms)
    assert b"".join(artifacts.read(name)) == b"shared"


def test_a_server_that_is_away_and_a_bucket_that_is_not_there_say_so(bucket: str, s3: str) -> None:
    """The errors name the place and no key; a missing bucket is no missing artifact."""
    with pytest.raises(StoreError, match="s3://nobody-has-this"):
        open_artifacts("s3://nobody-has-this").put([b"x"])
    away = ObjectArtifacts(f"s3://{bucket}")
    away._objects = obstore.store.S3Store(
        bucket,
        endpoint="http://127.0.0.1:9",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
        secret_access_key="s3cret-key",
    )
    with pytest.raises(StoreUnavailable, match="put it again") as refused:
        away.put([b"x"])
    assert "s3cret-key" not in str(refused.value)


def test_a_place_of_artifacts_is_a_folder_or_a_bucket(tmp_path: Path) -> None:
    """Folders are kept by files that are synced, and an unknown kind of place is refused."""
    for place in (tmp_path / "a", str(tmp_path / "a"), f"file://{tmp_path}/a"):
        artifacts = open_artifacts(place)
        assert isinstance(artifacts, FileArtifacts)
        assert b"".join(artifacts.read(artifacts.put([b"x"]).sha256)) == b"x"
    assert (tmp_path / "a").is_dir()
    with pytest.raises(BadInput, match="ftp:// is no place of artifacts"):
        open_artifacts("ftp://h/x")


def _note_uploads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets the mode of every put of content from now on."""
    modes, put = list[object](), obstore.put

    def noted(store: Any, path: str, file: Any, **options: Any) -> object:
        if file != b"":
            modes.append(options.get("mode"))
        return put(store, path, file, **options)

    monkeypatch.setattr(obstore, "put", noted)
    return modes


@pytest.mark.parametrize("size", [3, SPOOL_BYTES + 7], ids=["small", "large"])
def test_bytes_that_are_there_are_not_uploaded_again(bucket: str, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The second put of the same bytes, by another handle, sends none of them."""
    modes, data = _note_uploads(monkeypatch), [b"x" * size]
    first = open_artifacts(f"s3://{bucket}").put(data)
    assert len(modes) == 1
    assert open_artifacts(f"s3://{bucket}").put(data) == first
    assert len(modes) == 1


def test_eight_that_put_the_same_bytes_at_once_make_one_object(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have seen that nothing is there: the bucket takes the object of one of them, and none writes over it."""
    modes, together = _note_uploads(monkeypatch), threading.Barrier(8)
    put, made = obstore.put, list[str]()

    def late(store: Any, path: str, file: Any, **options: Any) -> object:
        together.wait()
        done = put(store, path, file, **options)
        made.append(path)
        return done

    monkeypatch.setattr(obstore, "put", lambda *given, **options: (put if given[2] == b"" else late)(*given, **options))
    with ThreadPoolExecutor(8) as pool:
        cards = list(pool.map(lambda _: open_artifacts(f"s3://{bucket}").put([b"the same"]), range(8)))
    assert modes == ["create"] * 8
    assert len(made) == len(set(cards)) == 1
    assert b"".join(open_artifacts(f"s3://{bucket}").read(cards[0].sha256)) == b"the same"


def test_eight_that_put_the_same_bytes_into_a_folder_at_once_make_one_file(tmp_path: Path) -> None:
    """Each of them may name it when its put returns, and nothing else is left in the folder."""
    with ThreadPoolExecutor(8) as pool:
        cards = list(pool.map(lambda _: open_artifacts(tmp_path / "a").put([b"the same"] * 1000), range(8)))
    assert len(set(cards)) == 1
    assert [path.name for path in (tmp_path / "a").rglob("*") if path.is_file()] == [cards[0].sha256]
    assert b"".join(open_artifacts(tmp_path / "a").read(cards[0].sha256)) == b"the same" * 1000


def test_an_artifact_under_a_lost_key_is_written_over_by_the_next_put() -> None:
    """Its name is of the plain bytes, so that an object of this name may be one that nobody can read any more."""
    shelf = ObjectArtifacts("memory:///")
    lost, now = (EncryptedArtifacts(shelf, LocalKeys("A" * 42 + last + "=", "test")) for last in "AE")
    name = lost.put([b"plain"]).sha256
    now.put([b"plain"])
    assert b"".join(now.read(name)) == b"plain"


def test_an_object_that_went_while_its_put_found_it_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion that began before is under way: the put does not rely on what it saw."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"shared"]).sha256
    put = obstore.put

    def deleted_meanwhile(store: Any, path: str, file: Any, **options: Any) -> object:
        monkeypatch.undo()
        obstore.delete(store, f"{name[:2]}/{name}")
        return put(store, path, file, **options)

    monkeypatch.setattr(obstore, "put", deleted_meanwhile)
    artifacts.put([b"shared"])
    assert b"".join(artifacts.read(name)) == b"shared"


def test_a_put_that_finds_its_bytes_while_they_are_being_deleted_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion has looked already, and deletes after the put has seen the object: the put waits, and makes it again."""
    artifacts, delete, get = ObjectArtifacts("memory:///"), obstore.delete, obstore.get
    name = artifacts.put([b"shared"]).sha256
    has_looked = threading.Event()

    def put() -> None:
        artifacts.put([b"shared"])
        has_looked.set()

    other = threading.Thread(target=put)

    def noted(store: Any, path: str, **options: Any) -> object:
        try:
            return get(store, path, **options)
        finally:
            if threading.current_thread() is other and path.endswith(".deleting"):
                has_looked.set()

    def late(store: Any, path: str) -> None:
        if path.endswith(name):
            other.start()
            assert has_looked.wait(60)
        delete(store, path)

    monkeypatch.setattr(obstore, "get", noted)
    monkeypatch.setattr(obstore, "delete", late)
    assert artifacts.delete(name, unless_put_after_ms=1 << 50)
    other.join()
    assert b"".join(artifacts.read(name)) == b"shared"


def objects_in(artifacts: ObjectArtifacts) -> list[str]:
    return [meta["path"] for page in obstore.list(artifacts._objects) for meta in page]


def killed_deletion(artifacts: ObjectArtifacts, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Begin to delete an artifact, as a process does that is killed then; return the path of the sign that it leaves."""
    with monkeypatch.context() as patch:
        patch.setattr(obstore, "delete", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            artifacts.delete(name, unless_put_after_ms=1 << 50)
    assert artifacts.names() == [name]  # a sign is no artifact
    (sign,) = [path for path in objects_in(artifacts) if path.endswith(".deleting")]
    return sign


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("comes", ["a put", "a deletion"])
def test_whoever_comes_after_a_deletion_that_was_killed_removes_its_sign(
    monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    """It is waited for once and not by each that comes later; the artifact is there, or is gone."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"shared"]).sha256
    sign = killed_deletion(artifacts, name, monkeypatch)
    monkeypatch.setattr("foveal.stores.objects.DELETING_S", 0.1)
    if comes == "a put":
        assert artifacts.put([b"shared"]).sha256 == name
        assert sign not in objects_in(artifacts)
        assert b"".join(artifacts.read(name)) == b"shared"
    else:
        assert artifacts.delete(name, unless_put_after_ms=1 << 50)
        assert objects_in(artifacts) == []


def test_what_a_killed_process_left_beside_artifacts_is_swept_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs, and times and offsets of artifacts that are gone; those of artifacts that are there stay."""
    artifacts = ObjectArtifacts("memory:///")
    stays, goes = (artifacts.put([data]).sha256 for data in (b"stays", b"goes"))
    for name in (stays, goes):
        artifacts.write_sidecar(name, b"derived")
    obstore.put(artifacts._objects, f"{goes[:2]}/{goes}.deleting", b"")
    obstore.delete(artifacts._objects, f"{goes[:2]}/{goes}")
    artifacts.sweep()
    assert len(objects_in(artifacts)) == 4
    monkeypatch.setattr("foveal.stores.objects.STRAY_MS", -60_000)
    artifacts.sweep()
    assert objects_in(artifacts) == [f"{stays[:2]}/{stays}", f"{stays[:2]}/{stays}.offsets"]


def test_a_deletion_that_was_held_up_for_too_long_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have taken it for dead by then, and rely on the artifact."""
    artifacts = ObjectArtifacts("memory:///")
    name = artifacts.put([b"shared"]).sha256
    monkeypatch.setattr("foveal.stores.objects.DELETING_S", 0.0)
    assert not artifacts.delete(name, unless_put_after_ms=1 << 50)
    assert objects_in(artifacts) == [f"{name[:2]}/{name}"]


def test_a_put_under_other_keys_is_not_taken_away_by_a_deletion_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes differ each time, so that it writes over what is there: as the deletion is about to remove it."""
    shelf, get = ObjectArtifacts("memory:///"), obstore.get
    artifacts = EncryptedArtifacts(shelf, LocalKeys("A" * 42 + "A=", "test"))
    name = artifacts.put([b"plain"]).sha256
    delete, has_looked = obstore.delete, threading.Event()

    def put() -> None:
        artifacts.put([b"plain"])
        has_looked.set()

    other = threading.Thread(target=put)

    def noted(store: Any, path: str, **options: Any) -> object:
        try:
            return get(store, path, **options)
        finally:
            if threading.current_thread() is other and path.endswith(".deleting"):
                has_looked.set()

    def late(store: Any, path: str) -> None:
        if path.endswith(name) and not other.ident:
            other.start()
            assert has_looked.wait(60)
        delete(store, path)

    monkeypatch.setattr(obstore, "get", noted)
    monkeypatch.setattr(obstore, "delete", late)
    artifacts.delete(name, unless_put_after_ms=1 << 50)
    other.join()
    assert b"".join(artifacts.read(name)) == b"plain"


def test_who_may_not_list_a_bucket_may_still_put(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 refuses such a role the look at an object that is not there, in place of saying so."""
    artifacts, get = ObjectArtifacts("memory:///"), obstore.get

    def refuse_what_is_absent(store: Any, path: str, **options: Any) -> object:
        try:
            return get(store, path, **options)
        except FileNotFoundError:
            raise PermissionDeniedError("AccessDenied") from None

    monkeypatch.setattr(obstore, "get", refuse_what_is_absent)
    name = artifacts.put([b"x"]).sha256
    artifacts.put([b"x"])
    assert b"".join(artifacts.read(name)) == b"x"
    assert artifacts.delete(name, unless_put_after_ms=1 << 50)


def test_a_deleted_artifact_leaves_nothing_in_its_bucket(bucket: str) -> None:
    """Neither the time of a second put nor what was derived from it stays beside it."""
    artifacts = ObjectArtifacts(f"s3://{bucket}")
    name = artifacts.put([b"shared"]).sha256
    artifacts.put([b"shared"])
    artifacts.write_sidecar(name, b"derived")
    assert artifacts.delete(name, unless_put_after_ms=1 << 50)
    assert [meta["path"] for page in obstore.list(artifacts._objects) for meta in page] == []


class _WithoutConditions(http.server.BaseHTTPRequestHandler):
    """An S3 server that does not know If-None-Match, and says so."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, bytes]

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        is_refused = "If-None-Match" in self.headers
        if not is_refused:
            self.kept[self.path] = data
        self._answer(501 if is_refused else 200, b"<Error><Code>NotImplemented</Code></Error>" if is_refused else b"")

    def do_HEAD(self) -> None:
        self._answer(200 if self.path in self.kept else 404, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Wed, 18 Nov 2026 20:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any, **__: Any) -> None:
        pass


@pytest.mark.parametrize("is_told", [True, False], ids=["told by AWS_CONDITIONAL_PUT", "found out"])
def test_a_provider_without_conditional_puts_is_written_over(monkeypatch: pytest.MonkeyPatch, *, is_told: bool) -> None:
    """The bytes of a name are the same, whoever puts them: nothing is refused for want of the condition."""
    kept = dict[str, bytes]()
    handler = type("Handler", (_WithoutConditions,), {"kept": kept})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        artifacts = ObjectArtifacts("memory:///")
        how: Any = {"conditional_put": "disabled"} if is_told else {}
        artifacts._objects = obstore.store.S3Store(
            "bucket",
            endpoint=f"http://127.0.0.1:{server.server_port}",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
            access_key_id="a",
            secret_access_key="b",
            region="r",
            **how,
        )
        names = [artifacts.put([data]).sha256 for data in (b"one", b"two")]
        server.shutdown()
    for name, data in zip(names, (b"one", b"two"), strict=True):
        assert kept[f"/bucket/{name[:2]}/{name}"] == data


@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_the_first_store_that_claims_a_place_has_it(tmp_path: Path, kind: str) -> None:
    """Every later one is told whose it is; the mark is no artifact, and nothing removes it."""
    place = FileArtifacts(tmp_path / "artifacts") if kind == "folder" else ObjectArtifacts("memory:///")
    assert [place.claim(store) for store in ("one", "two", "one")] == ["one"] * 3
    assert place.names() == []
    place.sweep()
    assert place.claim("two") == "one"
