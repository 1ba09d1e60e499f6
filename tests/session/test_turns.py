"""One call at a time: a second one is refused with a word, and a view that was interrupted catches up with its log."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveal.project.view import View
from foveal.session.options import Host, Model
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.summary.question import Question
from foveal.testing.builders import counted_ids, open_session
from foveal.values.entry import Message, ToolCall, assistant, result, user
from foveal.values.errors import FovealError, SessionBusy
from foveal.values.events import CompactionStarted, Event


def on_the_branch(store: Store, name: str = "test") -> list[str]:
    return [row.id for row in log.branch(store.rows(name))]


def said(session: Session) -> str:
    return str(session.prompt().request)


def test_what_eight_threads_are_told_is_kept_is_on_the_branch(tmp_path: Path) -> None:
    """Each append is on the branch or raises; none of them is acknowledged and lost from sight."""
    store = SqliteStore(tmp_path / "log.db")
    session = open_session(store)
    start, kept, refused = threading.Barrier(8), list[str](), list[FovealError]()

    def work(number: int) -> None:
        start.wait()
        for i in range(40):
            try:
                kept.append(session.append(user(f"{number}/{i}"), id=f"entry-{number}-{i}").id)
            except FovealError as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(number,), name=f"worker-{number}") for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(kept) <= set(on_the_branch(store))
    assert len(kept) + len(refused) == 8 * 40
    assert all(isinstance(error, SessionBusy) and error.thread.startswith("worker-") for error in refused)
    session.close()
    store.close()


def test_the_second_thread_is_told_who_is_inside() -> None:
    """The error names the session, both calls and the thread."""
    store = MemoryStore()
    session = open_session(store)
    real, inside, done = session._journal._writer.append, threading.Event(), threading.Event()

    def slow(*args: Any, **options: Any) -> list[int]:
        inside.set()
        done.wait(10)
        return real(*args, **options)

    session._journal._writer.append = slow  # type: ignore[method-assign]
    first = threading.Thread(target=session.append, args=(user("one"),), name="first")
    first.start()
    inside.wait(10)
    with pytest.raises(SessionBusy, match="'test': prompt was called while append of thread 'first' was inside it"):
        session.prompt()
    done.set()
    first.join()
    assert "one" in said(session)


def worked(store: Store, on_event: Callable[[Any], Any]) -> Session:
    policy = Policy(budget=BudgetTable(limit=2_000, reserve=0))
    session = Session(store, "test", model=Model("gpt-5"), policy=policy, host=Host(on_event=on_event))
    session.append(user("Go."))
    for i in range(12):
        messages: list[Message] = [assistant("", ToolCall(f"c{i}", "read", "{}")), result(f"c{i}", "word " * 300)]
        session.extend(messages)
    return session


def test_a_listener_that_appends_during_a_fold_is_refused() -> None:
    """It is warned of, by name; the fold and everything that was appended before are on the branch."""
    store = MemoryStore()

    def appends(event: Event) -> None:
        if isinstance(event, CompactionStarted):
            session.append(user("from the listener"))

    session = worked(store, appends)
    with pytest.warns(RuntimeWarning, match="SessionBusy.*append was called while prompt of this thread"):
        prompt = session.prompt()
    assert prompt.fold
    assert on_the_branch(store) == [row.id for row in store.rows("test")]
    assert "from the listener" not in said(session)


def interrupted_writes(session: Session, *, is_written: bool) -> None:
    """Let the next write be interrupted, before or after it reaches the store."""
    writer = session._journal._writer
    real = writer.append

    def once(*args: Any, **options: Any) -> list[int]:
        writer.append = real  # type: ignore[method-assign]
        if is_written:
            real(*args, **options)
        raise KeyboardInterrupt

    writer.append = once  # type: ignore[method-assign]


@pytest.mark.parametrize("is_written", [True, False])
def test_after_an_interrupted_append_the_view_is_that_of_the_log(is_written: bool) -> None:
    """Ctrl-C inside `append`: the entry is in the next prompt if it is in the log, and the branch goes on behind it."""
    store = MemoryStore()
    session = open_session(store)
    session.append(user("one"))
    interrupted_writes(session, is_written=is_written)
    with pytest.raises(KeyboardInterrupt):
        session.append(user("two"), id="second")
    assert ("two" in said(session)) == is_written
    session.append(user("two"), id="second")
    session.append(user("three"))
    request = said(session)
    assert [request.count(word) for word in ("one", "two", "three")] == [1, 1, 1]
    assert on_the_branch(store) == [row.id for row in store.rows("test")]


def test_a_write_that_comes_after_the_interruption_is_waited_for(tmp_path: Path) -> None:
    """The store may commit after the caller was interrupted: the next call finds the entry all the same."""
    store = SqliteStore(tmp_path / "log.db")
    session = open_session(store)
    session.append(user("one"))
    commits, is_held, hold = store._commits, threading.Event(), threading.Event()
    queued = threading.Thread(target=commits.run, args=(lambda _db: is_held.set() or hold.wait(10),))
    queued.start()
    assert is_held.wait(10)  # what is queued from now on stays in the queue
    writer, real = session._journal._writer, session._journal._writer.append
    pending: list[threading.Thread] = []

    def begun(*args: Any, **options: Any) -> list[int]:
        writer.append = real  # type: ignore[method-assign]
        pending.append(threading.Thread(target=real, args=args, kwargs=options))
        pending[0].start()
        while commits._queue.qsize() == 0:
            pending[0].join(0.001)
        raise KeyboardInterrupt

    writer.append = begun  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        session.append(user("two"))
    threading.Timer(0.05, hold.set).start()
    assert "two" in said(session)
    session.append(user("three"))
    assert on_the_branch(store) == [row.id for row in store.rows("test")]
    for thread in (queued, *pending):
        thread.join()
    session.close()
    store.close()


def test_a_view_that_was_interrupted_while_it_took_an_entry_in_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of an entry in the view would be worse than none."""
    session = open_session()
    session.append(user("one"))
    real = View.feed

    def half(self: View, seq: int, entry: Any) -> bool:
        self.transcript.take(seq, entry, entry.body)
        raise KeyboardInterrupt

    monkeypatch.setattr(View, "feed", half)
    with pytest.raises(KeyboardInterrupt):
        session.append(user("two"))
    monkeypatch.setattr(View, "feed", real)
    request = said(session)
    assert [request.count(word) for word in ("one", "two")] == [1, 1]


def test_an_interrupted_session_can_be_closed() -> None:
    """Closing needs no view, and leaves the log to the next one."""
    store = MemoryStore()
    session = open_session(store)
    session.append(user("one"))
    interrupted_writes(session, is_written=True)
    with pytest.raises(KeyboardInterrupt):
        session.append(user("two"))
    session.close()
    assert "two" in said(open_session(store, new_id=counted_ids("again")))


def test_another_thread_may_append_while_a_model_writes_and_do_nothing_else() -> None:
    """What a user says in the meantime is in the prompt, behind the fold; a second prompt would fold twice, and is refused."""
    store, refused = MemoryStore(), list[SessionBusy]()

    def meanwhile(_question: Question) -> str:
        for act in (session.prompt, lambda: session.branches.rewind(first), session.compaction.fold):
            try:
                act()
            except SessionBusy as error:
                refused.append(error)
        session.append(user("Stop after the import."))
        return "The agent reads one file after the other and has found nothing yet. " * 3

    policy = Policy(budget=BudgetTable(limit=2_000, reserve=0), compact=Compact(soft=1.0, retries=0))
    session = Session(store, "test", model=Model("gpt-5"), policy=policy, host=Host(summariser=meanwhile))
    first = session.append(user("Go.")).id
    for i in range(8):
        call = ToolCall(f"c{i}", "read", f'{{"path": "{i}.py"}}')
        session.extend([assistant("", call), result(call.id, f"line {i} of it " * 99)])
    prompt = session.prompt()
    assert prompt.fold
    assert "Stop after the import." in str(prompt.request)
    assert [error.wanted for error in refused] == ["prompt", "rewind", "compaction.fold"]
    assert on_the_branch(store) == [row.id for row in store.rows("test")]
