"""From stored sessions and recordings to the data of a page, in one pass over each log."""

import warnings
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from foveal.analysis.inspect.stored_session import AbsentRendererWarning, branch_of, known_session, tool_name
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.replay.provider_counts import ProviderCounts, provider_counts
from foveal.analysis.replay.replay import Replay, replay
from foveal.models.counters import ModelCounter
from foveal.session.own_tools import ours
from foveal.session.policy import Policy
from foveal.stores import MemoryStore
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Store
from foveal.values.entry import Message, Setup
from foveal.values.errors import NotFound
from foveal.viewer.document import PageCall, PageRun, PageSession
from foveal.viewer.run_reader import RunFacts, RunReader
from foveal.viewer.session_log import SessionLog

OTHERWISE = "openai_chat"
"""The dialect of recordings whose format does not tell."""

AS_SENT = "as it was sent"
"""The name of the run of a stored session."""


class RunOptions(msgspec.Struct, frozen=True):
    """One way to replay a recording, and its name on the page."""

    name: str
    policy: Policy
    model: str | None = None
    dialect: str | None = None
    counter: ModelCounter | None = None


def stored_page(store: Store, session: str, *, source: str = "", compare: Sequence[RunOptions] = ()) -> PageSession:
    """Return the data of a stored session's page, the next call included, and beside it its replay under other policies."""
    log = SessionLog(store, known_session(store, session))
    reader = RunReader(log, RunFacts(AS_SENT))
    reader.read()
    runs = [reader.run()]
    if reader.has_unknown_renderers:
        text = "the host shows some results by renderers that are not known here; they are shown and counted whole"
        warnings.warn(AbsentRendererWarning(text), stacklevel=2)
    if compare:
        recording = stored_recording(store, session)
        runs += [_replayed(recording, one, log)[1] for one in compare]
    return log.page(source, runs)


def recorded_page(recording: Recording, options: Sequence[RunOptions]) -> PageSession:
    """Return the data of a recording's page: every call as each policy would have sent it."""
    log, run = _replayed(recording, options[0], None)
    runs = [run, *(_replayed(recording, one, log)[1] for one in options[1:])]
    return log.page(recording.source, runs, project=recording.project, counts=_counts(run.calls))


def _counts(calls: Sequence[PageCall]) -> ProviderCounts:
    """Return how the provider's counts follow from ours, as long as the client sent its whole history."""
    whole = takewhile(lambda call: not call.is_compacted, calls)
    return provider_counts([(call.whole.tokens, call.recorded.tokens) for call in whole if call.recorded])


def stored_recording(store: Store, session: str) -> Recording:
    """Return the messages of a stored session as a recording, for a replay under another policy."""
    entries = branch_of(store, session)
    setups = [entry.body for entry in entries if isinstance(entry.body, Setup)]
    if not setups:
        raise NotFound(f"session {session!r} has no prompt yet: nothing was sent")
    artifacts = store.artifacts_for(session)
    messages = (read_artifacts(artifacts, entry).body for entry in entries)
    own = ours(setups[-1].tools)
    tools = [tool for tool in msgspec.json.decode(setups[-1].tools) if tool_name(tool) not in own]
    return Recording(
        id=session,
        source="",
        model=setups[-1].model,
        tools=msgspec.json.encode(tools).decode(),
        steps=tuple(RecordedStep(message) for message in messages if isinstance(message, Message)),
        dialect=setups[-1].dialect,
    )


def _replayed(recording: Recording, options: RunOptions, log: SessionLog | None) -> tuple[SessionLog, PageRun]:
    """Replay a recording and return its log with the run; words and texts are shared with another log of the same session."""
    store = MemoryStore()
    done = replay(
        recording,
        model=options.model,
        policy=options.policy,
        dialect=options.dialect or recording.dialect or OTHERWISE,
        counter=options.counter,
        store=store,
    )
    return _read_run(recording, options.name, done, log.again(store) if log else SessionLog(store, recording.id))


def replayed_page(recording: Recording, name: str, done: Replay, store: Store) -> PageSession:
    """Return the data of a recording's page from a replay of it and the store that the replay was kept in."""
    log, run = _read_run(recording, name, done, SessionLog(store, recording.id))
    return log.page(recording.source, [run], project=recording.project, counts=_counts(run.calls))


def _read_run(recording: Recording, name: str, done: Replay, log: SessionLog) -> tuple[SessionLog, PageRun]:
    facts = RunFacts(
        name,
        recorded={call.number: call.recorded for call in done.calls if call.recorded},
        compacted=compacted_calls(recording),
        refused={call.number for call in done.calls if call.sent is None},
        notes=done.notes,
        is_over=True,
    )
    reader = RunReader(log, facts)
    reader.read()
    return log, reader.run()


def compacted_calls(recording: Recording) -> set[int]:
    """Return the calls before which the recording agent had compacted its own context."""
    roles = [step.message.role for step in recording.steps]
    return {roles[:place].count("assistant") + 1 for place in recording.compactions}
