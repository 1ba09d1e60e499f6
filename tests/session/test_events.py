"""Events of a session: told as they happen, in the log for others, and quiet in `logging`."""

import logging
import subprocess
import sys
from itertools import pairwise
from typing import get_args

import msgspec
import pytest

from foveal import Host, Policy, Session, ToolCall, Usage, assistant, errors, events, result, system, user
from foveal.session.session_events import LogEvents
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store

_SAMPLES = {
    "<class 'str'>": "x",
    "<class 'int'>": 7,
    "<class 'bool'>": True,
    "int | None": 7,
    "float | None": 0.5,
    "str | None": "x",
}
SMALL = Policy(max_context_tokens=4_000)


def opened(store: Store, heard: list[events.Event], *, model: str = "gpt-5", policy: Policy = SMALL) -> Session:
    return Session(store, "watched", model=model, policy=policy, host=Host(on_event=heard.append))


def worked(session: Session, steps: int = 30) -> None:
    """Live through tool calls whose results fill the window, with the provider's count of each."""
    session.append(user("Read everything."))
    for n in range(steps):
        prompt = session.prompt()
        call = ToolCall(f"c{n}", "read_file", f'{{"path": "{n}.py"}}')
        session.extend([assistant("", call), Usage("gpt-5", prompt.tokens, 9)])
        session.append(result(f"c{n}", "\n".join(f"value_{n}_{i} = {i * n}" for i in range(60))))


def of_log(store: Store) -> list[events.Event]:
    """Return the events that another process reads from the log."""
    reader = LogEvents("watched")
    return [event for row in store.rows("watched") for event in reader.read(log.to_entry(row, "watched"))]


def test_every_event_has_a_row_in_the_table_and_a_line_for_people() -> None:
    """Of the union and of nothing else; each is JSON with its kind in it, and comes back as it was."""
    assert set(events.KINDS) == set(get_args(events.Event))
    for kind in events.KINDS:
        values = {field.name: _SAMPLES.get(str(field.type), "none") for field in msgspec.structs.fields(kind)}
        event = msgspec.convert({"event": kind.__struct_config__.tag, **values}, kind)
        assert str(event).startswith("x: ")
        data = msgspec.json.encode(event)
        assert msgspec.json.decode(data, type=events.Event) == event


def test_every_prompt_and_every_count_is_told() -> None:
    """In their order, with the numbers that the prompt and the provider have."""
    heard: list[events.Event] = []
    with opened(MemoryStore(), heard) as session:
        worked(session, 3)
    built = [event for event in heard if isinstance(event, events.PromptBuilt)]
    counted = [event for event in heard if isinstance(event, events.UsageReported)]
    assert [event.call for event in built] == [1, 2, 3]
    assert [event.tokens for event in built] == [event.input_tokens for event in counted]
    assert [event.estimated for event in counted] == [None] * 3  # an entry of the host's own
    kinds = [type(event) for event in heard if event in built or event in counted]
    assert kinds == [events.PromptBuilt, events.UsageReported] * 3


def test_a_listener_and_a_reader_of_the_log_are_told_the_same() -> None:
    """Folds, counts, recalls, a rewind, another model, a learned limit: all kept kinds, in the same order."""
    heard: list[events.Event] = []
    store = MemoryStore()
    with opened(store, heard) as session:
        worked(session)
        prompt = session.prompt()
        session.append(assistant("", ToolCall("r1", "search_context", '{"query": "value_3_7"}')))
        assert session.serve() == []
        session.branches.rewind(session.append(user("Then stop.")).id, "undone")
        session.compaction.recover(ValueError("This model's maximum context length is 3900 tokens."))
        session.compaction.forget_limit()
        assert prompt.fold or any(isinstance(event, events.CompactionEnded) for event in heard)
    with opened(store, heard, model="gpt-4o") as session:
        session.prompt()
    kept = [event for event in heard if events.KINDS[type(event)].is_kept]
    timeless = [
        msgspec.structs.replace(event, duration_ms=None) if isinstance(event, events.CompactionEnded) else event
        for event in kept
    ]
    assert sorted(map(str, of_log(store))) == sorted(map(str, timeless))
    told = {type(event) for event in kept}
    assert told >= {
        events.CompactionEnded,
        events.UsageReported,
        events.Recalled,
        events.Rewound,
        events.LimitLearned,
        events.LimitLifted,
        events.ModelChanged,
    }


def test_pressure_is_told_once_for_each_level() -> None:
    """It rises level by level and falls with the fold; a prompt at the same level says nothing."""
    heard: list[events.Event] = []
    with opened(MemoryStore(), heard) as session:
        worked(session)
    changes = [event for event in heard if isinstance(event, events.PressureChanged)]
    assert {"info", "warning"} & {event.level for event in changes}
    assert any(event.level == "none" for event in changes)
    assert all(event.level != event.before for event in changes)
    assert all(later.before == earlier.level for earlier, later in pairwise(changes))


def test_a_prompt_that_cannot_be_is_told() -> None:
    """With the sentence of the error, numbers included."""
    heard: list[events.Event] = []
    session = opened(MemoryStore(), heard)
    session.append(system("word " * 9_000))
    with pytest.raises(errors.OverBudget) as refused:
        session.prompt()
    assert heard[-1] == events.PromptRefused("watched", str(refused.value))


def test_a_session_that_was_taken_over_says_so() -> None:
    """The first writer is told that it lost the session, with the error that its call ends with."""
    heard: list[events.Event] = []
    store = MemoryStore()
    session = opened(store, heard)
    session.append(user("Hello."))
    other = Session(store, "watched", model="gpt-5", takeover=True)
    with pytest.raises(errors.LeaseLost):
        session.append(user("Still there?"))
    assert isinstance(heard[-1], events.SessionLost)
    other.close()


def test_a_failing_listener_keeps_no_event_from_the_others() -> None:
    """Its failure is a warning."""
    heard: list[events.Event] = []

    def broken(_event: events.Event) -> None:
        raise OSError("gone")

    listener = events.all_of(broken, heard.append)
    with Session(MemoryStore(), "watched", model="gpt-5", host=Host(on_event=listener)) as session:
        session.append(user("Hello."))
        with pytest.warns(RuntimeWarning, match="OSError: gone"):
            session.prompt()
    assert [type(event) for event in heard] == [events.PromptBuilt]


def test_logging_has_the_events_at_their_levels_and_none_of_the_content(caplog: pytest.LogCaptureFixture) -> None:
    """Under `foveal.session`: folds are news, prompts are details, and nobody's words are in a line."""
    with caplog.at_level(logging.DEBUG, "foveal"), opened(MemoryStore(), []) as session:
        worked(session)
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "foveal.session"]
    assert any(level == "INFO" and line.startswith("watched: folded ") for level, line in lines)
    assert any(level == "DEBUG" and line.startswith("watched: prompt 3 for gpt-5") for level, line in lines)
    assert not any("value_" in line or "Read everything" in line for _, line in lines)


def test_without_handlers_nothing_is_printed() -> None:
    """Not even warnings, which Python prints of libraries that forget to ask for silence."""
    program = """
from foveal import OverBudget, Policy, Session, open_store, system
session = Session(open_store(), "s", model="gpt-5", policy=Policy(max_context_tokens=2000))
session.append(system("word " * 9000))
try:
    session.prompt()
except OverBudget:
    pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
