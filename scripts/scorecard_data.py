"""Figures about data that is broken before it comes: poisoned logs, hostile values and cut streams."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import product
from typing import Any

import msgspec
from scorecard_parts import Failures, Figure, Plant, Tried, folder_in_memory, replace

from foveal.dialects import admission, find_dialect
from foveal.dialects.port import WireReply
from foveal.dialects.reply_filter import ReplyFilter
from foveal.dialects.sse import SseDecoder, sse_event
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.stores.rows import to_entry
from foveal.stores.sqlite import SqliteStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, counted_ids, open_session
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.testing.provider.replies import SPELLED, Call, Turn
from foveal.testing.provider.streams import SPOKEN
from foveal.testing.random_sessions import poisons
from foveal.testing.strategies import LONG_TEXTS, ODD_ARGUMENTS, ODD_TEXTS
from foveal.text import repair
from foveal.values.entry import Message, ToolCall, assistant, result, user
from foveal.values.errors import BadInput
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL

DIALECTS = sorted(MODELS)


def unbricked(cases: int, seed: int) -> Failures:
    """Poison sessions with one to three entries that some provider refuses: the next two prompts are valid."""
    failures, kept = Failures(), {dialect: list(poisons(MODELS[dialect])) for dialect in DIALECTS}
    for case in range(cases):
        rng, dialect = random.Random(f"{seed} {case}"), DIALECTS[case % len(DIALECTS)]
        model, session = MODELS[dialect], open_session(dialect=dialect)
        session.append(user("Go."))
        session.append(assistant("", ToolCall("c0", "read", "{}"), model=model))
        for poison in rng.sample(kept[dialect], rng.randint(1, 3)):
            session.append(poison)
        session.append(result("c0", "x"))
        for _ in range(2):
            try:
                problems = [str(problem) for problem in oracles.problems(session.prompt())]
            except Exception as error:  # whatever is raised, the session has no prompt
                problems = [f"{type(error).__name__}: {error}"]
            failures += [f"{dialect}, case {case}: {problem}" for problem in problems]
            session.append(assistant("Fine.", model=model))
            session.append(user("On."))
    return failures


# Hostile values


def hostile_message(rng: random.Random) -> Message:
    """Return a message whose texts, ids and arguments no format likes."""
    text = rng.choice((*ODD_TEXTS, *LONG_TEXTS, "".join(chr(rng.randrange(0x110000)) for _ in range(12))))
    if rng.random() < 0.5:
        return user(text)
    number = rng.choice(("1e400", "-0.0", "9" * 400, "1.7976931348623157e308", "18446744073709551616"))
    arguments = rng.choice((*ODD_ARGUMENTS, f'{{"n": {number}}}', json.dumps({text: [text, None]})))
    return assistant(text, ToolCall(f"c{rng.randrange(9)}", "read", arguments), model="gpt-5")


def _same_everywhere(stores: dict[str, Store], cases: int, seed: int) -> Failures:
    """Append the same values to each store: the logs read back as appended, and all prompts are the same bytes."""
    failures = Failures()
    for first in range(0, cases, 10):
        rng = random.Random(f"{seed} {first}")
        given = [hostile_message(rng) for _ in range(min(10, cases - first))]
        prompts = dict[str, bytes]()
        for name, store in stores.items():
            with open_session(store, f"s{first}") as session:
                kept = [entry for message in given if (entry := _appended(session.append, message))]
            read = {row.id: to_entry(row, name).body for row in store.rows(f"s{first}")}
            failures += [
                f"{name}: {entry.body!r:.120} came back changed" for entry in kept if read[entry.id] != entry.body
            ]
            with open_session(store, f"s{first}", new_id=counted_ids("again")) as session:
                prompts[name] = oracles.body(session.prompt())
        failures += [
            f"values from {first}: the prompt of {name} differs"
            for name in prompts
            if prompts[name] != prompts["memory"]
        ]
    return failures


def _appended(append: Callable[[Message], Any], message: Message) -> Any:
    try:
        return append(message)
    except BadInput:
        return None  # refused before anything was written


def hostile_values(cases: int, seed: int) -> Failures:
    """Keep hostile values in memory and in SQLite."""
    with folder_in_memory() as folder, SqliteStore(folder / "hostile.db") as store:
        return _same_everywhere({"memory": MemoryStore(), "SQLite": store}, cases, seed)


def hostile_values_in_postgres(cases: int, seed: int) -> Failures:
    """Keep hostile values in memory and in PostgreSQL."""
    from foveal.stores.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

    programs = find_postgres()
    assert programs
    with folder_in_memory() as folder, ExitStack() as stack:
        server = PostgresServer(programs).start()
        stack.callback(server.remove)
        store = stack.enter_context(PostgresStore(server.url, cache=folder))
        return _same_everywhere({"memory": MemoryStore(), "PostgreSQL": store}, cases, seed)


def _replaces_nul(kind: type[Any]) -> None:
    """Let a store keep another character for NUL."""
    real = kind.rows

    def other(self: Store, session: str, **span: Any) -> Iterator[Any]:
        for row in real(self, session, **span):
            yield msgspec.structs.replace(row, payload=row.payload.replace(b"\\u0000", b"\\u0020"))

    kind.rows = other


def _postgres_replaces_nul() -> None:
    from foveal.stores.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

    _replaces_nul(PostgresStore)


# Streams

TURNS = (
    Turn("Ich schaue é😀.", (Call("c1", "read", {"path": "ü.py"}), Call("c2", "read", {"path": "b.py"})), "Hm."),
    Turn("", (Call("c1", RECALL_TOOL, {"ref": "abc"}),)),
    Turn("Both.", (Call("c1", SEARCH_TOOL, {"query": "x"}), Call("c2", "bash", {"command": "rm -r build"}))),
    Turn('A quote: "data: {}"\n\nand a blank line.'),
)


@cache
def _streams() -> list[tuple[str, bytes]]:
    return [
        (dialect, b"".join(_event(name, data) for name, data in SPOKEN[dialect](SPELLED[dialect](turn, "m", n, 9))))
        for dialect, (n, turn) in product(DIALECTS, enumerate(TURNS))
    ]


def _event(name: str, data: object) -> bytes:
    return sse_event(data.encode() if isinstance(data, str) else json.dumps(data).encode(), name).raw


def _heard(dialect: str, data: bytes) -> tuple[WireReply | None, bool]:
    """Return the reply that a stream gives, and whether its own calls would be answered."""
    decoder = SseDecoder()
    seen = ReplyFilter(find_dialect(dialect).reader, {RECALL_TOOL, SEARCH_TOOL}, {"stream": True})
    for event in (*decoder.feed(data), *decoder.end()):
        seen.feed(event)
    ended = seen.end_round()
    return ended.reply, ended.again


def cut_streams(cases: int, seed: int) -> Tried:
    """Cut streams of four dialects at bytes: no half reply is taken for a whole one, and the session goes on."""
    failures, streams = Failures(), _streams()
    places = [(number, at) for number, (_, data) in enumerate(streams) for at in range(len(data))]
    wholes = [_heard(*stream)[0] for stream in streams]
    chosen = random.Random(seed).sample(places, min(cases, len(places)))
    for number, at in chosen:
        dialect, data = streams[number]
        where, whole = f"{dialect}, stream {number} cut at {at}", wholes[number]
        reply, again = _heard(dialect, data[:at])
        if reply is None or whole is None:
            failures.append(f"{where}: it could not be read")
            continue
        if reply.message.stop == "done":
            failures += [f"{where}: half a reply is done"] if reply.message != whole.message else []
            continue
        failures += [f"{where}: half a reply was answered"] if again else []
        session = open_session(dialect=dialect)
        session.append(user("Go."))
        session.append(reply.message)
        session.append(user("And?"))
        failures += [f"{where}: {problem}" for problem in oracles.problems(session.prompt())]
    return Tried(len(chosen), failures, there_are=len(places))


def _believes() -> None:
    """Let a stream that broke off be a reply that ended."""
    real = ReplyFilter._read

    def read(of: Callable[[], WireReply]) -> WireReply | None:
        reply = real(of)
        return reply and WireReply(Message("assistant", reply.message.parts, reply.message.model), reply.usage)

    ReplyFilter._read = staticmethod(read)  # type: ignore[method-assign]


FIGURES = (
    Figure(
        "V3",
        "sessions with poisoned entries: the next prompts are valid",
        unbricked,
        40,
        5_000,
        {
            "unchecked images": Plant(
                replace(admission, "fit_media", lambda item, _limits, _role: (item, "")),
                "Unrepresentable|InvalidPrompt",
            ),
            "unmended calls": Plant(
                replace(repair, "_repair_call", lambda call: (call, "")), "InvalidPrompt.*arguments"
            ),
        },
    ),
    Figure(
        "V8",
        "hostile values: SQLite keeps them and shows them as memory does",
        hostile_values,
        30,
        10_000,
        {"NUL replaced": Plant(lambda: _replaces_nul(SqliteStore), "came back changed")},
    ),
    Figure(
        "V8p",
        "hostile values: PostgreSQL keeps them and shows them as memory does",
        hostile_values_in_postgres,
        300,
        10_000,
        {"NUL replaced": Plant(_postgres_replaces_nul, "came back changed")},
        skipped=lambda: "" if find_postgres() else "there is no PostgreSQL server here",
    ),
    Figure(
        "V9",
        "streams cut at each byte: no half reply is taken for a whole one",
        cut_streams,
        80,
        100_000,
        {"cut taken for done": Plant(_believes, "half a reply is done")},
    ),
)
