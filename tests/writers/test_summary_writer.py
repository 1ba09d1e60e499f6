"""Who writes the prose of a summary, when it is asked for, and what is told of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from foveal import writers as summarisers
from foveal.models.counters import encoding
from foveal.session.policy import Compact
from foveal.summary.compose import compose
from foveal.summary.ledger import LedgerStep
from foveal.summary.prose import summary_in
from foveal.summary.question import Question
from foveal.summary.state import Summary, SummaryCoverage, encode_summary, extend, ledger_step
from foveal.values.entry import Fold, Message, PartFold, RangeFold, Text, ToolCall, ToolResult
from foveal.values.errors import BadPolicy, SummaryFailed
from foveal.values.events import CompactionEnded, CompactionStarted, Event, SummaryRefused, tell
from foveal.writers import Reply, Summariser
from foveal.writers.summary_writer import SummaryWriter
from foveal.writers.worker import THREAD_NAME

GOOD = "\n".join(
    f"## {name}\n{text}"
    for name, text in {
        "Goal": "Find the slow handler.",
        "Constraints": "Change no route.",
        "State": "Ten parts were read.",
        "Decisions": "none",
        "Next": "Measure the ninth part.",
    }.items()
)


def count(text: str) -> int:
    return encoding("o200k_base").count(text)


def reads(first: int = 1, last: int = 10) -> list[LedgerStep]:
    found: list[LedgerStep] = []
    for n in range(first, last + 1):
        call = ToolCall(f"c{n}", "read_file", f'{{"path": "src/part_{n}.py"}}')
        text = "\n".join(f"def handler_{n}_{i}(request): return route_{i * 7 % 11}({n})" for i in range(12))
        found.append(ledger_step(f"a{n}", Message("assistant", (call,)), 2 * n))
        found.append(ledger_step(f"b{n}", Message("tool", (ToolResult(call.id, (Text(text),)),)), 2 * n + 1))
    return found


def planned(steps: Sequence[LedgerStep]) -> Fold:
    """What a policy hands over: a fold whose summary code has written."""
    summary = extend(Summary(), steps, SummaryCoverage(len(steps), 4_000, "a..b"))
    text = compose(summary, tokens=1_200, count=count)
    item = RangeFold("a", "b", "summary", text, count(text), "summarise", "because", state=encode_summary(summary))
    return Fold((item,), "too much", 5_000, 1_500, 1_400)


STEPS = reads()
FOLD = planned(STEPS)


def of_ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


@pytest.fixture(autouse=True)
def go() -> Iterator[threading.Event]:
    """Set at the end of each test: what waits for it then ends, and no thread may be left."""
    event = threading.Event()
    yield event
    event.set()
    for thread in of_ours():
        thread.join(10)
    assert of_ours() == []


@pytest.fixture
def heard() -> list[Event]:
    return []


@pytest.fixture
def scribe(heard: list[Event]) -> Callable[..., SummaryWriter]:
    def make(summariser: Summariser | None, **compact: object) -> SummaryWriter:
        return SummaryWriter("s", Compact(**compact), summariser, heard.append)  # type: ignore[arg-type]

    return make


def write(scribe: SummaryWriter, fold: Fold = FOLD, steps: Sequence[LedgerStep] = STEPS, **options: object) -> Fold:
    return scribe.write(fold, steps, count=count, **options)  # type: ignore[arg-type]


def prose(fold: Fold) -> tuple[str, str]:
    item = summary_in(fold)
    assert item
    return item.prose, item.author


def finished(scribe: SummaryWriter) -> None:
    """Until what was asked ahead is answered."""
    assert scribe.is_asked_ahead
    for thread in of_ours():
        thread.join(10)


def mine(_: Question) -> str:
    return GOOD


async def later(_: Question) -> str:
    await asyncio.sleep(0)
    return GOOD


@pytest.mark.parametrize("summariser", [mine, later])
def test_a_function_or_an_async_function_writes_the_prose(scribe, heard, summariser) -> None:
    """Its answer stands in the summary, under its name."""
    done = write(scribe(summariser))
    assert prose(done) == (GOOD, summariser.__name__)
    assert GOOD in summary_in(done).text  # type: ignore[union-attr]
    assert [type(event) for event in heard] == [CompactionStarted, CompactionEnded]
    assert heard[-1].author == summariser.__name__


def test_with_nobody_to_ask_code_writes_alone(scribe, heard) -> None:
    """The fold is kept as it was planned."""
    assert write(scribe(None)) is FOLD
    assert heard[0] == CompactionStarted("s", "too much", 5_000)
    ended = heard[1]
    assert (ended.before, ended.after, ended.rebilled, ended.author, ended.cost_usd) == (
        5_000,
        1_500,
        1_400,
        "code",
        None,
    )


def test_the_end_tells_what_it_came_to(scribe, heard) -> None:
    """Tokens with the prose in it, what the call cost, and how long it took."""
    done = write(scribe(lambda q: Reply(GOOD, cost_usd=0.02)))
    assert (heard[-1].after, heard[-1].cost_usd) == (done.after, 0.02)
    assert heard[-1].duration_ms >= 0


def test_a_refused_answer_leaves_codes_summary(scribe, heard) -> None:
    """With the typed reason, a sentence, and whose answer it was."""
    assert write(scribe(lambda q: "", retries=0)) is FOLD
    _, refused, ended = heard
    assert isinstance(refused, SummaryRefused)
    assert (refused.session, refused.author, refused.why) == ("s", "<lambda>", "empty")
    assert refused.detail
    assert ended.author == "code"


def test_a_failure_can_be_an_error(scribe, heard) -> None:
    """Who does not want code's summary gets the reason, and no fold."""
    with pytest.raises(SummaryFailed, match=r"the summariser <lambda> failed \(empty\).*Nothing was folded") as raised:
        write(scribe(lambda q: "", on_failure="raise"))
    assert (raised.value.author, raised.value.reason) == ("<lambda>", "empty")
    assert not any(isinstance(event, CompactionEnded) for event in heard)


def test_it_is_asked_as_often_as_the_policy_says(scribe) -> None:
    """A retry has the reason of the refusal with it."""
    asked: list[Question] = []

    def summarise(question: Question) -> str:
        asked.append(question)
        return ""

    write(scribe(summarise, retries=2))
    assert [bool(question.remark) for question in asked] == [False, True, True]


def test_instructions_reach_the_summariser(scribe) -> None:
    """What the user wants it to look at stands in the question."""
    asked: list[Question] = []
    write(scribe(lambda q: asked.append(q) or GOOD), instructions="the ninth part")
    assert asked[0].instructions == "the ninth part"


def test_after_three_failures_it_is_left_alone(scribe, heard) -> None:
    """Five compactions go without; then it gets one more chance."""
    asked: list[Question] = []
    failing = scribe(lambda q: asked.append(q) or "", retries=0)
    for _ in range(3):
        write(failing)
    assert not failing.is_wanted
    for _ in range(5):
        write(failing)
    assert len(asked) == 3
    assert sum(isinstance(event, SummaryRefused) for event in heard) == 3
    write(failing)
    assert len(asked) == 4


def test_by_hand_it_is_asked_all_the_same(scribe) -> None:
    """A user who asks for it wants it tried; success closes the breaker."""
    answers = iter(["", "", "", GOOD, GOOD])
    waking = scribe(lambda q: next(answers), retries=0)
    for _ in range(3):
        write(waking)
    assert prose(write(waking, by_hand=True))[0] == GOOD
    assert waking.is_wanted
    assert prose(write(waking))[0] == GOOD


def test_where_one_may_not_ask_nobody_is_asked(scribe) -> None:
    """After a refusal of the provider, nothing depends on another call."""
    asked: list[Question] = []
    assert write(scribe(lambda q: asked.append(q) or GOOD), may_ask=False) is FOLD
    assert asked == []


def test_what_was_asked_ahead_is_there_when_it_is_due(scribe) -> None:
    """At the hard trigger nobody waits: the answer is taken and nothing is asked again."""
    asked: list[Question] = []
    ahead = scribe(lambda q: asked.append(q) or GOOD)
    ahead.ask_ahead(planned(reads(1, 8)), reads(1, 8), count)
    finished(ahead)
    assert prose(write(ahead))[0] == GOOD
    assert len(asked) == 1
    assert not ahead.is_asked_ahead


def test_an_answer_about_something_else_is_dropped(scribe) -> None:
    """After a rewind, say: what it speaks of is not what is folded, so it is asked anew."""
    asked: list[Question] = []
    ahead = scribe(lambda q: asked.append(q) or GOOD)
    ahead.ask_ahead(planned(reads(20, 24)), reads(20, 24), count)
    finished(ahead)
    write(ahead)
    assert len(asked) == 2
    assert "part_24" in asked[0].transcript
    assert "part_24" not in asked[1].transcript


def test_an_answer_that_is_late_is_not_waited_for(scribe, go) -> None:
    """What is asked now knows more; the late one reaches nobody."""
    asked: list[Question] = []
    under_way = threading.Event()

    def summarise(question: Question) -> str:
        asked.append(question)
        if len(asked) == 1:
            under_way.set()
            go.wait(60)
            return GOOD.replace("slow", "LATE")
        return GOOD

    ahead = scribe(summarise)
    ahead.ask_ahead(planned(reads(1, 8)), reads(1, 8), count)
    assert under_way.wait(10)
    assert prose(write(ahead))[0] == GOOD
    go.set()
    for thread in of_ours():
        thread.join(10)
    assert prose(write(ahead))[0] == GOOD
    assert len(asked) == 3


def test_a_failure_ahead_counts_and_is_tried_again(scribe, heard) -> None:
    """What failed in the background gets its chance in the foreground."""
    answers = iter(["", GOOD])
    ahead = scribe(lambda q: next(answers), retries=0)
    ahead.ask_ahead(FOLD, STEPS, count)
    finished(ahead)
    assert prose(write(ahead))[0] == GOOD
    assert not any(isinstance(event, SummaryRefused) for event in heard)


def test_nothing_is_asked_ahead_without_a_summary(scribe) -> None:
    """A fold that only shortens needs no prose; nobody to ask is no error."""
    ahead = scribe(mine)
    ahead.ask_ahead(Fold((PartFold("z", 0, "cleared", "", 0, "clear", "b"),), "r", 2, 1, 1), STEPS, count)
    ahead.ask_ahead(FOLD, [], count)
    assert not ahead.is_asked_ahead
    scribe(None).ask_ahead(FOLD, STEPS, count)


def test_closing_forgets_what_is_under_way(scribe, go) -> None:
    """The session is over; its answer is nobody's."""
    ahead = scribe(lambda q: str(go.wait(60)))
    ahead.ask_ahead(FOLD, STEPS, count)
    ahead.close()
    go.set()
    for thread in of_ours():
        thread.join(10)
    assert not ahead.is_asked_ahead


def test_what_the_agent_wrote_is_taken_before_anybody_is_asked(scribe, heard) -> None:
    """A checkpoint is prose with the agent for its author."""
    asked: list[Question] = []
    done = write(scribe(lambda q: asked.append(q) or GOOD), checkpoint="## Summary\nAll parts were read.")
    assert prose(done) == ("## Summary\nAll parts were read.", "agent")
    assert heard[-1].author == "agent"
    assert asked == []


def test_a_policy_names_its_summariser(heard) -> None:
    """By a registered name, which is then the author; an unknown name is an error that lists what there is."""
    summarisers.register("scribe-test", mine)
    named = SummaryWriter("s", Compact(summariser="scribe-test"), None, heard.append)
    assert prose(write(named)) == (GOOD, "scribe-test")
    with pytest.raises(BadPolicy, match=r"there is no summariser 'scribe-tset'.*Did you mean 'scribe-test'"):
        SummaryWriter("s", Compact(summariser="scribe-tset"), None, heard.append)


def test_a_watcher_that_fails_does_not_take_the_session_with_it() -> None:
    """It is told of as a warning, and the fold is made."""

    def broken(_: Event) -> None:
        raise KeyError("no such panel")

    with pytest.warns(RuntimeWarning, match="on_event raised KeyError"):
        tell(broken, CompactionStarted("s", "too much", 5))
