"""Figures about strangers: sessions of other keys and tenants, files beside a workspace, secrets in records."""

import io
import logging
import os
import random
import re
import string
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from secrets import token_bytes
from typing import Any, NamedTuple

from scorecard_parts import Failures, Figure, Plant, folder_in_memory, replace

from foveal.context import safe_paths
from foveal.context.workspace import Workspace
from foveal.gateway import session_names
from foveal.gateway.session_names import ApiCaller
from foveal.recall.search import Moment, scope_index, search, search_earlier, search_store
from foveal.recall.search import index as session_index
from foveal.session.options import Host, Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores import private
from foveal.stores.keys import LocalKeys
from foveal.stores.memory import MemoryStore
from foveal.stores.port import KeptNote, SearchIndex, Store
from foveal.stores.portable import export_session
from foveal.stores.private import PrivateStore
from foveal.stores.sqlite import SqliteStore
from foveal.stores.tenants import TenantArtifacts
from foveal.testing.hostile_names import hostile_names
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.testing.tenant_probes import EMPTY, REFUSED
from foveal.text import redaction
from foveal.text.redaction import redact_secrets
from foveal.values.entry import ToolCall, ToolResult, assistant, result, user
from foveal.values.errors import BadInput, FovealError, NotFound

MODEL = Model("gpt-5", "openai_chat")

# Other keys, other tenants


_REFUSED = {
    **REFUSED,
    "artifact of a session": lambda store, session, sha256: list(store.artifacts_for(session).read(sha256)),
}


class Neighbours(NamedTuple):
    """Two tenants of one store, of whom the first has a session, a note, a tombstone and an artifact."""

    where: str
    acme: Store
    acm: Store
    artifact: str
    """The hash of the artifact."""
    kept: tuple[str, ...]
    """The names of all artifacts in the place that both share."""


def strangers(cases: int, seed: int) -> Failures:
    """Ask for sessions and artifacts of others, with forged names: in turn below the tenants of a store in memory, below those of
    an SQLite file with its folder of artifacts, and by keys of the HTTP API."""
    rng = random.Random(seed)
    with folder_in_memory() as folder, ExitStack() as stack:
        files = [stack.enter_context(SqliteStore(folder / name)) for name in ("plain.db", "encrypted.db")]
        memory = _neighbours("memory", (MemoryStore(), MemoryStore()))
        return _probe_all(cases, rng, memory, _neighbours("SQLite", files), is_by_key=True)


def strangers_in_postgres(cases: int, seed: int) -> Failures:
    """Ask for sessions and artifacts of others below the tenants of a PostgreSQL store."""
    from foveal.stores.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

    programs = find_postgres()
    assert programs
    with folder_in_memory() as folder, ExitStack() as stack:
        server = PostgresServer(programs).start()
        stack.callback(server.remove)
        schemas = [
            stack.enter_context(PostgresStore(server.url, schema=name, cache=folder)) for name in ("plain", "encrypted")
        ]
        return _probe_all(cases, random.Random(seed), _neighbours("PostgreSQL", schemas))


def _probe_all(cases: int, rng: random.Random, *places: Sequence[Neighbours], is_by_key: bool = False) -> Failures:
    """Probe each place in turn, without and with keys, and at last look whether anything was changed."""
    failures, every = Failures(), [one for place in places for one in place]
    before = [_picture(one) for one in every]
    for case in range(cases):
        turn = case % (len(places) + is_by_key)
        failures += _probe_tenant(rng, rng.choice(places[turn])) if turn < len(places) else _probe_keys(rng)
    changed = [one.where for one, then in zip(every, before, strict=True) if _picture(one) != then]
    return [*failures, *(f"{where}: what belongs to the other tenant was changed" for where in changed)]


def _neighbours(where: str, stores: Sequence[Store]) -> list[Neighbours]:
    """Return two tenants of a store that is plain, and two of one that is encrypted."""
    keys = (None, LocalKeys(b64encode(token_bytes(32)).decode(), "here"))
    return [_two_tenants(where, below, key) for below, key in zip(stores, keys, strict=True)]


def _two_tenants(where: str, below: Store, keys: LocalKeys | None) -> Neighbours:
    acme, acm = (PrivateStore(below, tenant=name, keys=keys) for name in ("acme", "acm"))
    with Session(acme, "s", model=MODEL) as session:
        session.append(user("a secret"))
        session.prompt()
    acme.acquire("t", scope="people").release()
    acme.scope("people").keep(KeptNote("colour", "a secret", "t", "host", 5))
    acme.delete([_gone(acme)])
    sha256 = acme.artifacts.put([b"a secret"]).sha256
    return Neighbours(where, acme, acm, sha256, tuple(one.name for one in below.kept_artifacts()))


def _gone(store: Store) -> str:
    store.acquire("gone").release()
    return "gone"


def _picture(one: Neighbours) -> object:
    store = one.acme
    rows = {card.id: list(store.rows(card.id)) for card in store.cards()}
    try:
        artifact = list(store.artifacts.read(one.artifact))
    except NotFound:
        artifact = []
    return rows, store.scope("people").notes(), artifact, store.tombstones()


def _probe_tenant(rng: random.Random, one: Neighbours) -> Failures:
    pieces = ("s", "@acme:", "@acm:", ":", "e:s", "../", "%", "_", "*", "acme", "\0", "t", "@", "s\n", "gone", "\ud800")
    name = "".join(rng.choices(pieces, k=rng.randint(0, 4)))
    sha256 = rng.choice((one.artifact, *one.kept, one.artifact.upper(), f"../{one.artifact}", f"{one.kept[0]}.meta"))
    way = rng.choice([*_REFUSED, *EMPTY])
    try:
        found = (_REFUSED.get(way) or EMPTY[way])(one.acm, name, sha256)
    except (NotFound, BadInput):
        return []
    except FovealError as error:
        return [f"{one.where}: {way} of {name!r} is told {error!r:.120}"]
    return [f"{one.where}: {way} of {name!r} found {found!r:.80}"] if found or way in _REFUSED else []


def _probe_keys(rng: random.Random) -> Failures:
    """Let one key, or none, name a session of another in a forged way."""
    mine = ApiCaller.of({rng.choice(("x-api-key", "authorization")): f"k{rng.random()}"})
    other = ApiCaller.of(rng.choice(({}, {"x-api-key": f"k{rng.random()}"})))
    stored = mine.stored_name(rng.choice(("notes", "notes/child", "a-b", "x/y/z", "-", "a" * 80)))
    assert stored
    forged = rng.choice(
        (
            stored,
            stored.upper(),
            stored.removesuffix(mine.key),
            stored.removesuffix(f"-{mine.key}"),
            f"{stored}-{other.key}",
            f"{stored}/../{stored}",
            f"{stored}\n",
            stored.partition("/")[0],
            f"{other.key}/{stored}",
            f"{stored}\0{other.key}",
        )
    )
    reached = other.stored_name(forged)
    is_mine = reached is not None and (reached == stored or mine.owns(reached) or other.owns(stored))
    return [f"{forged!r} leads to {reached!r} of another key"] if is_mine else []


# Files beside a workspace


@contextmanager
def _beside() -> Iterator[tuple[Path, Path]]:
    """Make a root and a folder beside it that holds a secret; syncs are not waited for."""
    real, os.fsync = os.fsync, lambda _handle: None
    try:
        with folder_in_memory() as folder:
            outside = folder / "outside"
            outside.mkdir()
            (outside / "secret.txt").write_text("secret")
            yield folder / "root", outside
    finally:
        os.fsync = real


def escapes(cases: int, seed: int) -> Failures:
    """Try to leave a workspace by names, links and swaps while a call is under way: nothing beside it is read or written."""
    failures, rng = Failures(), random.Random(seed)
    names = hostile_names(max(cases, 200), seed)
    with _beside() as (root, outside):
        space = Workspace.open(root, "a session")
        uploads = space.folder("uploads")
        for case, act in islice(enumerate(cycle(ESCAPES)), cases):
            said: object = None
            with suppress(FovealError):
                said = act(space, outside, names[case], rng)
            if uploads.is_symlink():
                uploads.unlink()
                (space.path / "aside").rename(uploads)
            there = {path.name: path.read_bytes() for path in outside.iterdir()}
            beside = {path.name for path in root.parent.iterdir()}
            if there != {"secret.txt": b"secret"} or beside != {"root", "outside"} or said == b"secret":
                failures.append(f"case {case}, {act.__name__} {names[case]!r:.60}: {beside}, {there}, {said!r:.40}")
                for name in there.keys() - {"secret.txt"}:
                    (outside / name).unlink()
    return failures


def put_under_name(space: Workspace, _outside: Path, name: str, _rng: random.Random) -> object:
    """Keep a file under a hostile name, which comes back as it was."""
    stored = space.put(b"x", name)
    assert space.get(stored.id).name == name[:8_192]
    return stored


def open_under_name(space: Workspace, _outside: Path, name: str, _rng: random.Random) -> object:
    """Open a workspace of a session with a hostile name."""
    return Workspace.open(space.root, name).put(b"x", "x.txt")


def read_under_name(space: Workspace, _outside: Path, name: str, rng: random.Random) -> bytes:
    """Read a file below the root by a hostile path."""
    climbs = rng.choice((name, f"{name}/../outside/secret.txt", "../" * rng.randint(1, 4) + "outside/secret.txt"))
    return safe_paths.read_file(space.root, safe_paths.parts_of(climbs), most_bytes=100)[0]


def read_link(space: Workspace, outside: Path, name: str, _rng: random.Random) -> bytes:
    """Read a stored file that was swapped for a link."""
    stored = space.put(b"x", name)
    path = space.folder("uploads") / stored.file
    path.unlink()
    path.symlink_to(outside / "secret.txt")
    with space.stream(stored.id) as stream:
        return stream.read()


def put_while_swapped(space: Workspace, outside: Path, name: str, rng: random.Random) -> object:
    """Keep a file while its folder is swapped for a link before one of the opens."""
    real, seen, at = os.open, 0, rng.randint(1, 7)

    def swapping(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        nonlocal seen
        seen += 1
        if seen == at:
            uploads = space.folder("uploads")
            uploads.rename(space.path / "aside")
            uploads.symlink_to(outside, target_is_directory=True)
        return real(path, flags, *rest, **more)

    os.open = swapping
    try:
        return space.put(b"x", name)
    finally:
        os.open = real


ESCAPES: tuple[Callable[[Workspace, Path, str, random.Random], object], ...] = (
    put_under_name,
    open_under_name,
    read_under_name,
    read_link,
    put_while_swapped,
)

# Secrets in records


SCOPE = "people"
MOST_STEM = 30
"""Letters of a secret that an index has in any case: the ending of a word may be cut."""


def _letters(rng: random.Random, count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(rng.choices(alphabet, k=count))


SECRETS: dict[str, Callable[[str], str]] = {
    "GitHub token": lambda core: f"ghp_{core}",
    "API key": lambda core: f"sk-proj-{core}",
    "Slack token": lambda core: f"xoxb-{core}",
    "Bearer": lambda core: f"Authorization: Bearer {core}",
    "token": lambda core: f"eyJ{core}.eyJ{core}.{core}",
    "password in an address": lambda core: f"postgresql://me:{core}@db/x",
    "setting": lambda core: f"API_KEY={core}",
    "JSON": lambda core: f'"password": "{core}"',
    "private key": lambda core: f"-----BEGIN RSA PRIVATE KEY-----\n{core}\n-----END RSA PRIVATE KEY-----",
}


def canaries(cases: int, seed: int) -> Failures:
    """Say secrets of each known shape in each kind of message: none is in a file, a prompt, a trace, an export, a line of a log,
    or among the words of an index."""
    failures, rng, lines = Failures(), random.Random(seed), io.StringIO()
    logging.basicConfig(stream=lines, level=logging.DEBUG, force=True)
    shapes = list(islice(cycle(SECRETS.items()), cases))
    with folder_in_memory() as folder:
        with SqliteStore(folder / "canaries.db") as store:
            cores = [_letters(rng, 40) for _ in shapes]
            shown = [
                _say(store, f"s{n}", make(core)) for n, ((_, make), core) in enumerate(zip(shapes, cores, strict=True))
            ]
            terms = [_indexed(store.index(f"s{n}")) for n in range(len(shown))]
            shared = {"the index of a scope": _scope_terms(store), "the index of all": _terms_of_all(store)}
        files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    log = lines.getvalue()
    for (shape, _), core, said, own in zip(shapes, cores, shown, terms, strict=True):
        places = [name for name, data in files.items() if core.encode() in data]
        places += [name for name, text in (("prompt, trace or export", said), ("log", log)) if core in text]
        places += [name for name, there in ({"its index": own} | shared).items() if core.lower()[:MOST_STEM] in there]
        failures += [f"{shape}: in {place}" for place in places]
    return failures


def _say(store: Store, name: str, secret: str) -> str:
    """Say a secret in a session in every way, and return its prompt, its trace, a hit and its export."""
    stream, policy = io.BytesIO(), Policy(memory=SCOPE)
    with Session(store, name, model=MODEL, policy=policy, host=Host(redact=redact_secrets)) as session:
        session.append(user(f"It is {secret} now"))
        session.append({"role": "user", "content": f"again {secret}"})
        session.append(assistant("", ToolCall("c1", "run", f"{{{secret}}}"), ToolCall("c2", "run", "{}")))
        session.append(result("c1", f"echo {secret}"))
        session.append(result("c2", f"line {secret}\n" * 1_000))
        reply = {"role": "assistant", "content": f"I read {secret} there"}
        session.append({"choices": [{"message": reply, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}})
        session.append(user("and now?"))
        shown = f"{session.prompt().request} {session.why()} {search(store, name, 'redacted')}"
    export_session(store, name, stream)
    return shown + stream.getvalue().decode()


def _scope_terms(store: Store) -> str:
    search_earlier(store, Moment(SCOPE, "nobody", time.time_ns() // 1_000_000), "redacted")
    return _indexed(store.scope(SCOPE).index())


def _terms_of_all(store: Store) -> str:
    search_store(store, "redacted")
    return _indexed(store.index_of_all())


def _indexed(index: SearchIndex) -> str:
    """Return the words of an index. Its file does not show them: they are in lower case there, and without a common beginning."""
    with index.opened() as db:
        db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, words, row)")
        terms = [str(term) for (term,) in db.execute("SELECT term FROM temp.terms").fetchall()]
        db.execute("DROP TABLE temp.terms")
    if not terms:
        raise RuntimeError("the index has no words")
    return " ".join(terms)


# Plants


def _one_artifact_place() -> None:
    """Let tenants share the names of their artifacts."""
    TenantArtifacts._name = lambda _self, sha256: sha256  # type: ignore[method-assign]


def _results_as_they_are() -> None:
    real = redaction._redacted_part
    redaction._redacted_part = lambda part, redact: part if isinstance(part, ToolResult) else real(part, redact)


def _indexed_as_said() -> None:
    """Let indexes take the words as they were said, and not as they are kept."""
    said, known = set[str](), redact_secrets

    def redact(text: str) -> str:
        said.update(text.split())
        return known(text)

    replace(sys.modules[__name__], "redact_secrets", redact)()
    for module in (session_index, scope_index):
        real = module.indexed
        replace(module, "indexed", lambda text, real=real, **more: real(f"{text} {' '.join(said)}", **more))()


FIGURES = (
    Figure(
        "S2",
        "sessions, notes and artifacts of other tenants, in memory and in an SQLite file with its artifacts, and of other keys",
        strangers,
        300,
        1_000_000,
        {
            "prefix without end": Plant(
                replace(private, "tenant_prefix", lambda tenant: "@" + tenant[:3]), "SQLite: .* found "
            ),
            "one place for artifacts": Plant(_one_artifact_place, "SQLite: (span|artifact) of .* found "),
            "hash not compared": Plant(replace(session_names, "_HASH", re.compile(r"never\Z")), "of another key"),
        },
    ),
    Figure(
        "S2p",
        "sessions, notes and artifacts of other tenants in PostgreSQL",
        strangers_in_postgres,
        300,
        200_000,
        {
            "prefix without end": Plant(replace(private, "tenant_prefix", lambda tenant: "@" + tenant[:3]), " found "),
            "one place for artifacts": Plant(_one_artifact_place, "(span|artifact) of .* found "),
        },
        skipped=lambda: "" if find_postgres() else "there is no PostgreSQL server here",
    ),
    Figure(
        "S4",
        "names, links and swaps that lead out of a workspace",
        escapes,
        100,
        20_000,
        {
            "links followed": Plant(replace(safe_paths, "_NOFOLLOW", 0), "read_link|put_while_swapped"),
            "paths that climb": Plant(
                replace(safe_paths, "parts_of", lambda path: tuple(path.split("/"))), "read_under_name"
            ),
        },
    ),
    Figure(
        "S7",
        "secrets of nine known shapes in files, prompts, traces, exports, logs, and the words of all search indexes",
        canaries,
        9,
        3_000,
        {
            "results as they are": Plant(_results_as_they_are, "in canaries.db"),
            "indexed as said": Plant(_indexed_as_said, "in its index"),
            "a rule less": Plant(replace(redaction, "_PATTERNS", redaction._PATTERNS[:-1]), "(setting|JSON): in "),
        },
    ),
)
