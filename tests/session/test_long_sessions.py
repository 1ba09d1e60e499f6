"""An act on a long session reads and writes what its prompt holds, not what its history holds. Counted, not timed."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from foveal.session.options import Clock, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing.builders import MODELS, READ_TOOL, SECRET, counted_ids
from foveal.testing.counting_store import CountingStore
from foveal.values.entry import Message, Pin, ToolCall, assistant, result, user

SHORT, LONG = 600, 2_400
"""Messages of the two sessions that are compared. Both have several folds: an act that crosses one reads more rows."""

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def opened(store: MemoryStore, dialect: str = "openai_chat", ids: str = "first") -> Session:
    policy = Policy(budget=BudgetTable(limit=4_000, reserve=0))
    # With a secret of their own, the notes of sessions have other tokens, and the folds other places.
    clock = Clock(new_id=counted_ids(ids), new_secret=lambda: SECRET)
    return Session(store, "long", model=Model(MODELS[dialect], dialect), policy=policy, clock=clock)


def step(number: int) -> list[Message]:
    text = " ".join(WORDS[(number * 7 + i * i) % 10] + str(number + i) for i in range(60))
    call = ToolCall(f"c{number}", "read", f'{{"path": "part_{number}.py"}}')
    return [assistant("", call), result(call.id, text)]


def lived(messages: int) -> tuple[CountingStore, Session, list[str]]:
    """Return a session of so many messages, a prompt before each reply, and the ids of its messages."""
    store = CountingStore()
    session = opened(store)
    ids = [session.append(user("Read all parts.")).id]
    for number in range(messages // 2):
        session.prompt([READ_TOOL])
        ids += [entry.id for entry in session.extend(step(number))]
    return store, session, ids


def retained(session: Session) -> None:
    session.prompt([{**READ_TOOL, "retention": {"mode": "summary", "limit_tokens": 30}}])


ACTS: dict[str, Callable[[Session, list[str]], object]] = {
    "pin of a shown message": lambda session, ids: session.append(Pin(ids[-3])),
    "pin of a covered message": lambda session, ids: session.append(Pin(ids[len(ids) // 5])),
    "pin of a covered passage": lambda session, ids: session.append(Pin(ids[len(ids) // 5 * 2], text="a")),
    "rewind by a few": lambda session, ids: session.branches.rewind(ids[-5]),
    "rewind to the middle": lambda session, ids: session.branches.rewind(ids[len(ids) // 2]),
    "retention": lambda session, _: retained(session),
    "why of an early call": lambda session, _: session.why(10),
    "why of a call in the middle": lambda session, ids: session.why(len(ids) // 4),
    "why of the last call": lambda session, _: session.why(session.view.facts.calls),
}


def folded(session: Session) -> None:
    """Go on until the next fold."""
    for number in range(10_000, 10_200):
        session.extend(step(number))
        if session.prompt([READ_TOOL]).fold:
            return
    raise AssertionError("no fold")


@pytest.fixture(scope="module")
def sizes() -> dict[int, tuple[CountingStore, list[str]]]:
    made: dict[int, tuple[CountingStore, list[str]]] = {}
    for messages in (SHORT, LONG):
        store, session, ids = lived(messages)
        session.close()
        made[messages] = store, ids
    return made


def copied(store: CountingStore) -> CountingStore:
    """The same log and snapshot in another store."""
    twin = CountingStore()
    twin._logs["long"] = deepcopy(store._logs["long"])
    return twin


@pytest.mark.parametrize("act", ACTS)
def test_an_act_reads_as_many_rows_in_a_long_session(act: str, sizes: Any) -> None:
    """The act and the fold after it: at most twice as many rows for four times as many messages."""
    counts: dict[int, list[int]] = {}
    for messages, (kept, ids) in sizes.items():
        store = copied(kept)
        session = opened(store, ids=f"{act} {messages}")
        store.read = 0
        ACTS[act](session, ids)
        counts[messages] = [store.read]
        folded(session)
        counts[messages].append(store.read)
        session.close()
    assert all(many <= 2 * few + 40 for few, many in zip(counts[SHORT], counts[LONG], strict=True)), counts


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_a_long_session_is_opened_from_few_rows(dialect: str, sizes: Any) -> None:
    """With the model that it had, or with another one."""
    counts: dict[int, int] = {}
    for messages, (kept, _) in sizes.items():
        store = copied(kept)
        session = opened(store, dialect, ids=f"{dialect} {messages}")
        session.prompt([READ_TOOL])
        folded(session)
        counts[messages] = store.read
        session.close()
    assert counts[LONG] <= 2 * counts[SHORT] + 40, counts


def test_a_session_without_a_snapshot_is_opened_from_its_newest_fold(sizes: Any) -> None:
    """Snapshots are a cache: without one, the layout that the newest fold recorded is enough."""
    kept, _ = sizes[LONG]
    store = copied(kept)
    known = opened(store, ids="known")
    before = known.prompt([READ_TOOL])
    known.close()
    store._logs["long"].snapshot = None
    store.read = 0
    assert opened(store, ids="anew").prompt([READ_TOOL]).request == before.request
    assert store.read < 400


def test_little_more_is_written_than_is_appended() -> None:
    """Folds, setups and snapshots together stay below twice the bytes of the messages."""
    store = MemoryStore()
    session = opened(store)
    writer, written = session._journal._writer, 0
    append = writer.append

    def counted(drafts: Any, *, snapshot: bytes | None = None) -> list[int]:
        nonlocal written
        written += sum(len(draft.payload) for draft in drafts) + len(snapshot or b"")
        return append(drafts, snapshot=snapshot)

    writer.append = counted  # type: ignore[method-assign]
    session.append(user("Read all parts."))
    for number in range(400):
        session.prompt([READ_TOOL])
        session.extend(step(number))
    session.close()
    appended = sum(len(row.payload) for row in store.rows("long") if row.payload.startswith(b'={"is":"message"'))
    assert session.view.facts.folds > 20
    assert written < 6 * appended, written / appended
