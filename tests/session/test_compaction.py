"""Compaction through a session: by hand, at its triggers, with summarisers of every kind, watched and undone."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from foveal import AsyncSession
from foveal import writers as summarisers
from foveal.analysis.inspect.stored_session import copy_session
from foveal.session.options import Clock, Host, Model
from foveal.session.planner import BY_HAND
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.summary.question import Question
from foveal.testing import oracles
from foveal.testing.builders import MODELS, counted_ids
from foveal.values.entry import Fold, Overflow, Pin, RangeFold, ToolCall, assistant, result, system, user
from foveal.values.errors import ContextOverflow, SummaryFailed, TailLost
from foveal.values.events import CompactionEnded, CompactionStarted, Event, Pressure, SummaryRefused
from foveal.values.own_tools import RECALL_TOOL
from foveal.values.shown import Gap
from foveal.writers import Summariser
from foveal.writers.worker import THREAD_NAME

from ..writers.test_call import GOOD, SHORT_S, WAYS

LIMIT = 6_000
BUDGET = BudgetTable(limit=LIMIT, reserve=0)


@pytest.fixture(autouse=True)
def release() -> Iterator[threading.Event]:
    """Set at the end of each test: what hangs then ends, and no thread may be left."""
    event = threading.Event()
    yield event
    event.set()
    for thread in of_ours():
        thread.join(10)
    assert of_ours() == []


def of_ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


def opened(
    store: Store | None = None,
    *,
    summariser: Summariser | None = None,
    heard: list[Event] | None = None,
    dialect: str = "openai_chat",
    ids: str = "test",
    budget: BudgetTable = BUDGET,
    **compact: Any,
) -> Session:
    return Session(
        store or MemoryStore(),
        "test",
        model=Model(MODELS[dialect], dialect),
        policy=Policy(budget=budget, compact=Compact(**compact)),
        host=Host(summariser=summariser, on_event=(lambda _: None) if heard is None else heard.append),
        clock=Clock(new_id=counted_ids(ids), now_ms=count().__next__),
    )


def work(session: Session, first: int, last: int) -> None:
    """So many files are read, each under an id of its own."""
    for n in range(first, last):
        call = ToolCall(f"c{n}", "read_file", f'{{"path": "src/part_{n}.py"}}')
        text = "\n".join(f"def handler_{n}_{i}(request): return table[{(n * 31 + i * 7) % 997}]" for i in range(9))
        session.append(assistant("", call, model=session._journal.setup.model), id=f"call-{n}")
        session.append(result(call.id, text), id=f"found-{n}")


def begun(session: Session) -> Session:
    session.append(system("Be brief."), id="system")
    session.append(user("Find the slow handler; never touch table[7]."), id="request")
    return session


def fill(session: Session, share: float, *, first: int = 0) -> int:
    """Read files until the next prompt takes this share of what it may; the number of the next one."""
    n = first
    while session.compaction.pressure().share < share:
        work(session, n, n + 1)
        n += 1
    return n


def full(session: Session) -> Session:
    """More was read than the limit takes."""
    fill(begun(session), 1.01)
    return session


def gaps(session: Session) -> list[Gap]:
    return [atom.gap for atom in session.view.atoms if atom.gap]


def summary_of(fold: Fold | None) -> RangeFold:
    assert fold
    return next(item for item in fold.items if isinstance(item, RangeFold) and item.level == "summary")


def test_by_hand_half_of_it_goes() -> None:
    """Far below the limit, on request: the view is about half as large, and the reason says who wanted it."""
    session = begun(opened())
    fill(session, 0.6)
    before = session.view.size.tokens
    fold = session.compaction.fold()
    assert fold
    assert fold.reason == BY_HAND
    assert fold.before == before
    assert fold.after == session.view.size.tokens <= before // 2 + before // 10
    prompt = session.prompt()
    assert oracles.problems(prompt) == []
    assert prompt.fold is None


def test_what_cannot_be_folded_is_left_alone() -> None:
    """A session of two words: nothing is written, and the caller is told by None."""
    session = begun(opened())
    seq = session.view.facts.seq
    assert session.compaction.fold() is None
    assert session.view.facts.seq == seq


def test_the_first_and_the_latest_request_and_pins_stay_to_the_byte() -> None:
    """They never pass through a summary."""
    session = begun(opened())
    work(session, 0, 6)
    session.append(Pin("found-2"))
    pinned = session.recall("found-2")
    fill(session, 0.8, first=6)
    session.append(user("And what about handler_3_1?"))
    session.compaction.fold()
    said = "\n".join(oracles.strings(session.prompt().request))
    for kept in ("Find the slow handler; never touch table[7].", pinned, "And what about handler_3_1?"):
        assert kept in said
    assert len(gaps(session)) >= 2


def test_a_compaction_is_undone_by_rewinding_to_before_it() -> None:
    """The view is what it was, to the byte, and the session goes on from there; the log keeps both."""
    session = begun(opened())
    fill(session, 0.7)
    before, head = oracles.body(session.prompt()), session.view.facts.head
    assert session.compaction.fold()
    assert oracles.body(session.prompt()) != before
    assert head
    session.branches.rewind(head, "the summary lost the plot")
    assert gaps(session) == []
    assert oracles.body(session.prompt()) == before
    session.append(user("Go on."))
    assert oracles.problems(session.prompt()) == []


def test_it_is_undone_after_reopening_too() -> None:
    """What is rewound stays rewound."""
    store = MemoryStore()
    session = begun(opened(store))
    fill(session, 0.7)
    before, head = oracles.body(session.prompt()), session.view.facts.head
    session.compaction.fold()
    session.close()
    again = opened(store, ids="again")
    assert head
    again.branches.rewind(head)
    again.close()
    assert oracles.body(opened(store, ids="third").prompt()) == before


def test_instructions_go_to_the_summariser() -> None:
    """What the user wants it to look at, and nothing of it into the log's state."""
    asked: list[Question] = []
    session = begun(opened(summariser=lambda q: asked.append(q) or GOOD, soft=1.0))
    fill(session, 0.7)
    fold = session.compaction.fold("only what was said about tables")
    assert asked[0].instructions == "only what was said about tables"
    assert summary_of(fold).prose == GOOD


async def later(_: Question) -> str:
    await asyncio.sleep(0)
    return GOOD


@pytest.mark.parametrize("summariser", [lambda _: GOOD, later], ids=["function", "async function"])
def test_prose_stands_in_the_prompt(summariser: Summariser) -> None:
    """At the hard trigger, before the call: what a function wrote is sent, with the state that code carries."""
    session = full(opened(summariser=summariser, soft=1.0))
    prompt = session.prompt()
    said = "\n".join(oracles.strings(prompt.request))
    assert GOOD in said
    assert "part_0.py" in said
    assert oracles.problems(prompt) == []
    assert prompt.tokens <= LIMIT


def test_the_next_question_holds_the_prose_before_it() -> None:
    """A summary is updated, not written of a summary: the transcript is what is newly folded."""
    asked: list[Question] = []
    session = full(opened(summariser=lambda q: asked.append(q) or GOOD, soft=1.0))
    session.prompt()
    fill(session, 1.01, first=500)
    session.prompt()
    first, second = asked
    assert (first.previous, second.previous) == ("", GOOD)
    assert "part_0.py" in first.transcript
    assert "part_0.py" not in second.transcript
    assert "[Summary of" not in second.transcript


def test_events_tell_what_happened() -> None:
    """Start and end of every fold, with the numbers that the fold itself has."""
    heard: list[Event] = []
    session = full(opened(heard=heard))
    fold = session.prompt().fold
    assert fold
    started, ended, *_ = heard
    assert started == CompactionStarted("test", fold.reason, fold.before)
    assert isinstance(ended, CompactionEnded)
    assert (ended.before, ended.after, ended.rebilled) == (fold.before, fold.after, fold.rebilled)
    assert ended.author == "code"


def test_without_a_fold_nothing_is_told() -> None:
    """Events are for compactions, not for calls."""
    heard: list[Event] = []
    begun(opened(heard=heard)).prompt()
    assert not [event for event in heard if isinstance(event, CompactionStarted | CompactionEnded)]


@pytest.mark.parametrize(
    ("tokens", "level"),
    [
        (0, "none"),
        (699, "none"),
        (700, "info"),
        (800, "warning"),
        (949, "warning"),
        (950, "critical"),
        (2_000, "critical"),
    ],
)
def test_pressure_has_levels(tokens: int, level: str) -> None:
    """Shares of what may be sent before a fold is due."""
    assert Pressure(tokens, 1_000).level == level


def test_without_any_room_the_pressure_is_critical() -> None:
    """Tools and framing alone take all of it."""
    assert Pressure(50, 0).level == Pressure(50, -10).level == "critical"


def test_pressure_is_that_of_the_next_prompt() -> None:
    """Tools and framing are counted, as the prompt counts them; it rises with what is appended and falls with a fold."""
    session = begun(opened())
    assert session.compaction.pressure().level == "none"
    fill(session, 0.85)
    assert session.compaction.pressure().level == "warning"
    assert session.compaction.pressure().tokens == session.prompt().tokens
    assert session.compaction.pressure().limit == LIMIT
    session.compaction.fold()
    assert session.compaction.pressure().level in ("none", "info")


def test_a_trigger_below_the_limit_folds_early() -> None:
    """Above `trigger`, down to `target`, with the limit far away."""
    session = begun(opened(budget=BudgetTable(limit=20_000, reserve=0, trigger=4_000, target=2_000)))
    assert session.compaction.pressure().limit == 4_000
    n = fill(session, 0.95)
    assert session.prompt().fold is None
    fill(session, 1.01, first=n)
    prompt = session.prompt()
    assert prompt.fold
    assert prompt.tokens <= 2_600
    assert "allowed" in prompt.fold.reason


def test_a_refusal_lowers_a_target_in_tokens_below_a_trigger_in_shares() -> None:
    """The provider takes half of what the policy allows: the share is of the smaller room, and the target still below it."""
    session = begun(opened(budget=BudgetTable(limit=20_000, reserve=0, trigger=0.5, target=8_000)))
    session.append(Overflow(MODELS["openai_chat"], 10_000, "said so"))
    fill(session, 1.01)
    prompt = session.prompt()
    assert prompt.fold
    assert prompt.tokens <= 3_600


def test_what_cannot_go_below_the_trigger_still_fits_the_limit() -> None:
    """A floor above the trigger is no error and no loop: the prompt is sent, and nothing is folded again and again."""
    session = opened(budget=BudgetTable(limit=20_000, reserve=0, trigger=2_000, target=1_000))
    session.append(user("word " * 3_000))
    for _ in range(3):
        assert session.prompt().fold is None
        session.extend([assistant("ok"), user("word")])


@pytest.mark.parametrize(("trigger", "target"), [(2_000, 1_000), (3_000, 1_500), (4_000, 2_000)])
def test_a_floor_above_the_trigger_is_no_loop(trigger: int, target: int) -> None:
    """What must stay is more than the trigger: a fold waits until it frees as much as a fold should, or half of that."""
    session = begun(opened(budget=BudgetTable(limit=20_000, reserve=0, trigger=trigger, target=target)))
    session.append(Pin(session.append(user("word " * 3_400)).id))
    folds: list[Fold] = []
    for n in range(60):
        work(session, n, n + 1)
        if fold := session.prompt().fold:
            folds.append(fold)
    assert 1 <= len(folds) <= 20
    assert all(2 * (fold.before - fold.after) >= trigger - target for fold in folds)


def test_folds_are_far_apart() -> None:
    """Each leaves head-room: a session of five times its limit is folded a few times, not at every call."""
    heard: list[Event] = []
    session = begun(opened(heard=heard))
    calls = 100
    for n in range(calls):
        work(session, n, n + 1)
        assert session.prompt().tokens <= LIMIT
    assert 2 <= sum(isinstance(event, CompactionEnded) for event in heard) <= calls / 6


def test_at_the_soft_trigger_the_summary_is_asked_for_ahead() -> None:
    """In the background; at the hard trigger its answer is there, and nobody is asked twice."""
    asked: list[Question] = []
    session = begun(opened(summariser=lambda q: asked.append(q) or GOOD, soft=0.8))
    n = fill(session, 0.7)
    session.prompt()
    assert (asked, session._folds._summary_writer.is_asked_ahead) == ([], False)
    n = fill(session, 0.85, first=n)
    assert session.prompt().fold is None
    assert session._folds._summary_writer.is_asked_ahead
    for thread in of_ours():
        thread.join(10)
    assert len(asked) == 1
    fill(session, 1.01, first=n)
    prompt = session.prompt()
    assert summary_of(prompt.fold).prose == GOOD
    assert len(asked) == 1


def test_while_it_is_under_way_prompts_are_not_held_up(release: threading.Event) -> None:
    """A summariser that hangs is one thread, whatever is asked meanwhile; what is due is folded by code."""
    asked: list[Question] = []

    def hanging(question: Question) -> str:
        asked.append(question)
        release.wait(60)
        return GOOD

    heard: list[Event] = []
    session = begun(opened(summariser=hanging, heard=heard, soft=0.5, deadline_s=SHORT_S, retries=0))
    n = fill(session, 0.6)
    for _ in range(5):
        assert session.prompt().fold is None
        work(session, n, n + 1)
        n += 1
    fill(session, 1.01, first=n)
    prompt = session.prompt()
    assert summary_of(prompt.fold).author == ""
    assert [event.why for event in heard if isinstance(event, SummaryRefused)] == ["deadline"]
    assert len(asked) <= 2


def test_a_failure_can_stop_the_prompt() -> None:
    """`on_failure = "raise"`: no fold, no entry in the log, and the next attempt starts afresh."""
    answers = iter(["", "", GOOD])
    session = full(opened(summariser=lambda _: next(answers), on_failure="raise", soft=1.0, retries=1))
    seq = session.view.facts.seq
    with pytest.raises(SummaryFailed, match="empty"):
        session.prompt()
    assert session.view.facts.seq == seq
    assert summary_of(session.prompt().fold).prose == GOOD


def test_a_summariser_that_fails_again_and_again_is_left_alone() -> None:
    """After three failures in a row, compactions go on without it."""
    asked: list[Question] = []
    heard: list[Event] = []
    session = begun(opened(summariser=lambda q: asked.append(q) or "", heard=heard, retries=0, soft=1.0))
    n = 0
    for _ in range(6):
        n = fill(session, 1.01, first=n)
        assert session.prompt().fold
    assert len(asked) == 3
    assert [event.why for event in heard if isinstance(event, SummaryRefused)] == ["empty"] * 3
    session.compaction.fold()
    assert len(asked) == 4


EXPECTED = {"longer": "over"}
"""At this size what is longer than it may be is smaller than what it stands for."""


@pytest.mark.parametrize("way", WAYS)
def test_however_a_summariser_fails_the_prompt_is_valid_and_smaller(way: str, release: threading.Event) -> None:
    """Fourteen ways: within the limit, passing the provider's rules, with the typed reason told; code's summary stands."""
    make, reason = WAYS[way]
    heard: list[Event] = []
    deadline_s = SHORT_S if reason == "deadline" else 30.0
    session = opened(summariser=make(release), heard=heard, soft=1.0, deadline_s=deadline_s)
    full(session)
    before = session.compaction.pressure().tokens
    prompt = session.prompt()
    assert oracles.problems(prompt) == []
    assert prompt.tokens <= LIMIT < before
    refused = [event for event in heard if isinstance(event, SummaryRefused)]
    assert [event.why for event in refused] == [EXPECTED.get(way, reason)]
    assert refused[0].detail
    summary = summary_of(prompt.fold)
    assert (summary.author, summary.prose) == ("", "")
    assert "part_0.py" in summary.text
    ended = [event for event in heard if isinstance(event, CompactionEnded)]
    assert [event.author for event in ended] == ["code"]


@pytest.mark.parametrize("dialect", sorted(MODELS))
def test_prose_is_valid_in_every_format(dialect: str) -> None:
    """A summary is a message like any other."""
    session = full(opened(summariser=lambda _: GOOD, dialect=dialect, soft=1.0))
    prompt = session.prompt()
    assert prompt.fold
    assert oracles.problems(prompt) == []


@pytest.mark.parametrize("summariser", [None, lambda _: GOOD], ids=["code", "prose"])
def test_what_is_fetched_again_and_again_comes_back_with_the_next_fold(summariser: Summariser | None) -> None:
    """The model asked for it twice since the last one: whoever writes the summary, it is part of it."""
    session = full(opened(summariser=summariser, soft=1.0))
    session.prompt()
    assert "found-2" not in {item.id for atom in session.view.atoms for item in atom.items}
    for n in range(2):
        session.append(assistant("", ToolCall(f"r{n}", RECALL_TOOL, '{"ref": "found-2"}'), model="gpt-5"))
        session.serve()
    fill(session, 1.01, first=500)
    assert session.prompt().fold
    (gap,) = gaps(session)
    assert "[ref found-2, fetched again and again]\ndef handler_2_0" in gap.text


def rebuilt(session: Session, **options: object) -> Session:
    """The same session from a store that holds the log alone."""
    store = MemoryStore()
    copy_session(session._journal.store, store, "test")
    assert store.snapshot("test") is None
    return opened(store, ids="again", **options)  # type: ignore[arg-type]


def test_prose_is_the_same_after_a_rebuild() -> None:
    """What somebody wrote is in the log: the session that is made from it alone goes on with the very same prompts."""
    lived = full(opened(summariser=lambda _: GOOD, soft=1.0))
    lived.prompt()
    lived._folds._summary_writer._ask = None  # from here on code writes alone, in both of them
    other = rebuilt(lived)
    for first in (500, 600):
        for session in (lived, other):
            work(session, first, first + 50)
        assert oracles.body(lived.prompt()) == oracles.body(other.prompt())
    assert "Make the nightly import finish before six." in "\n".join(oracles.strings(other.prompt().request))


def test_a_registered_summariser_is_named_by_the_policy() -> None:
    """So that a file can say which; its name is the author."""
    summarisers.register("compaction-test", lambda _: GOOD)
    policy = Policy(budget=BUDGET, compact=Compact(summariser="compaction-test", soft=1.0))
    session = full(Session(MemoryStore(), "test", model="gpt-5", policy=policy, clock=Clock(new_id=counted_ids())))
    assert summary_of(session.prompt().fold).author == "compaction-test"


TOO_LONG = "prompt is too long: 9000 tokens > 3000 maximum"


def test_the_async_session_does_the_same() -> None:
    """`compact`, `recover` and `pressure` wait for their turn, off the loop."""

    async def main(make: Callable[[], Session]) -> None:
        async with AsyncSession._of(make()) as session:
            before = await session.compaction.pressure()
            assert await session.compaction.fold()
            assert (await session.compaction.pressure()).tokens < before.tokens
            for _ in range(2):
                assert (await session.compaction.recover(TOO_LONG)).tokens <= 3_000
            with pytest.raises(ContextOverflow):
                await session.compaction.recover(TOO_LONG)

    asyncio.run(main(lambda: full(opened(recoveries=2))))


def test_a_session_that_lost_entries_says_so_when_it_is_closed() -> None:
    """The snapshot that closing writes may fail in silence; that acknowledged entries are gone may not."""
    store = MemoryStore()
    session = Session(store, "s", model="gpt-5")
    for n in range(30):
        session.append(user(f"Question {n}: " + "why does the handler fail? " * 60))
        session.append(assistant(f"Answer {n}: " + "because the table is empty. " * 60))
    session.compaction.fold()
    store._logs["s"].rows.pop()
    with pytest.raises(TailLost, match="lost the last 1"):
        session.close()
