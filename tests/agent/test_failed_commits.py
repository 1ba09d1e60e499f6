"""A store that fails for a moment, at each commit of a run: before it has written, or after, when nobody knows that it has."""

import asyncio
import time
from contextlib import suppress
from itertools import count, product

import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, AskUser, Limits, Runs, ToolContext, ToolOutput, UserAnswer, tool
from foveal.agent.driver import RunDriver
from foveal.agent.run_events import ModelReplied, RunEnded, SummaryBilled, ToolReturned
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import RunLeft, SummaryPaid
from foveal.stores.memory import MemoryStore
from foveal.testing.commit_faults import LOST, CommitFaults
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadEntry, NotFound, StoreUnavailable

from .conftest import FakeModel, agent_with, calls, collect, says


def interrupted(number, *, is_kept):
    """A store in memory whose commit of this number fails, and what it tells of its commits."""
    store = MemoryStore()
    faults = CommitFaults(store)
    faults.fail(number, is_kept=is_kept)
    return store, faults


async def finished(agent: Agent, store, seen=lambda event: None):
    """The outcome of a run that is resumed when it has failed."""
    runs = Runs(store, [agent])
    run = await runs.start(agent, "Go.", session="s")
    for _ in range(3):
        for event in await collect(runs.observe(run)):
            seen(event)
        outcome = await runs.wait(run, 30)
        if outcome.status == "completed":
            return outcome
        if outcome.status == "failed":
            assert outcome.reason == LOST
        try:
            await runs.resume(run, UserAnswer("", "allow") if outcome.status == "awaiting_user" else None)
        except StoreUnavailable:  # the answer is in the inbox
            await runs.resume(run)
    raise AssertionError("it failed more than once")


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_no_reply_and_no_result_is_lost_by_a_commit_that_fails(is_kept):
    """Each reply is paid for, and each tool may have done something that must not be done twice."""
    for number in count(2):  # the first one begins the run: whoever starts it is told
        ran: list[int] = []
        values: list[object] = []

        @tool
        async def look(n: int) -> dict[str, int]:
            ran.append(n)  # noqa: B023 - called within the turn of the loop
            return {"n": n}

        def seen(event):
            if isinstance(event, ToolReturned):
                values.append(event.data)  # noqa: B023 - as above

        store, faults = interrupted(number, is_kept=is_kept)
        beside = says("", ("look", {"n": 2}), ("look", {"n": 3}))
        model = FakeModel(calls("look", n=1), beside, says("Done."))
        outcome = asyncio.run(finished(agent_with(model, look), store, seen))
        assert (outcome.text, len(model.requests), sorted(ran)) == ("Done.", 3, [1, 2, 3]), number
        assert run_problems(read_events(store, "s")) == [], number
        assert len(values) == 3, number
        if not faults.are_over:
            assert number > 8
            return


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_a_call_whose_start_could_not_be_written_has_not_begun(is_kept):
    """The model is not told that a tool may have had its effect which was never called; it is called when the run goes on."""
    for number in count(2):
        ran: list[int] = []

        @tool(retry="never")
        async def pay(n: int) -> str:
            ran.append(n)  # noqa: B023 - called within the turn of the loop
            return "paid"

        @tool(retry="never", serial=True)
        async def send(n: int) -> str:
            ran.append(n)  # noqa: B023 - as above
            return "sent"

        store, faults = interrupted(number, is_kept=is_kept)
        beside = says("", ("pay", {"n": 1}), ("pay", {"n": 2}), ("send", {"n": 3}))
        model = FakeModel(beside, says("Done."))
        outcome = asyncio.run(finished(agent_with(model, pay, send, limits=Limits(parallel_calls=1)), store))
        assert (outcome.text, sorted(ran)) == ("Done.", [1, 2, 3]), number
        assert run_problems(read_events(store, "s")) == [], number
        if not faults.are_over:
            assert number > 8
            return


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_a_call_that_waits_for_the_user_runs_once_although_a_commit_fails(is_kept):
    for number in count(2):
        ran: list[str] = []

        @tool
        async def send(text: str) -> str:
            ran.append(text)  # noqa: B023 - called within the turn of the loop
            return "sent"

        store, faults = interrupted(number, is_kept=is_kept)
        model = FakeModel(calls("send", text="hello"), says("Done."))
        agent = agent_with(model, send, approvals=[ApprovalRule("send")])
        outcome = asyncio.run(finished(agent, store))
        assert (outcome.text, len(model.requests), ran) == ("Done.", 2, ["hello"]), number
        assert run_problems(read_events(store, "s")) == [], number
        if not faults.are_over:
            assert number > 6
            return


@pytest.mark.parametrize(
    "kept", list(product([False, True], repeat=2)), ids=lambda kept: "".join("ru"[one] for one in kept)
)
def test_no_reply_and_no_result_is_lost_by_two_commits_that_fail(kept):
    """The second one is the next commit, or the one after it: the end of a run that has failed may fail as well."""
    for number, apart in ((number, apart) for number in count(2) for apart in (1, 2)):
        ran: list[int] = []

        @tool
        async def look(n: int) -> dict[str, int]:
            ran.append(n)  # noqa: B023 - called within the turn of the loop
            return {"n": n}

        store, faults = interrupted(number, is_kept=kept[0])
        faults.fail(number + apart, is_kept=kept[1])
        model = FakeModel(calls("look", n=1), says("", ("look", {"n": 2}), ("look", {"n": 3})), says("Done."))
        text = asyncio.run(carried_on(agent_with(model, look), store))
        assert (text, len(model.requests), sorted(ran)) == ("Done.", 3, [1, 2, 3]), (number, apart)
        assert run_problems(read_events(store, "s")) == [], (number, apart)
        if not faults.are_over:
            assert number > 7
            return


async def carried_on(agent: Agent, store) -> str:
    """The answer of a run that somebody resumes whenever it has failed or was left under way."""
    runs = Runs(store, [agent])
    run = await runs.start(agent, "Go.", session="s")
    while True:
        try:
            outcome = await runs.wait(run, 10)
        except StoreUnavailable:  # nobody could write down that it has failed
            outcome = None
        if outcome and outcome.status == "completed":
            return outcome.text
        await resumed(runs, run)


async def resumed(runs: Runs, run: str) -> None:
    for _ in range(3):
        with suppress(StoreUnavailable):
            await runs.resume(run)
            return
    raise AssertionError("it failed more often than the store")


@pytest.mark.parametrize("look", ["wait", "observe"])
@pytest.mark.parametrize("verb", ["start", "resume"])
def test_a_run_that_began_or_went_on_unseen_keeps_nobody_waiting(verb, look):
    """The log says that it is under way, and the program that it could not be: whoever waits is told that it has failed."""
    store = MemoryStore()
    faults = CommitFaults(store)

    @tool(guarded=True)
    def remove() -> str:
        return "removed"

    agent = agent_with(FakeModel(calls("remove"), says("Done.")), remove)

    async def talk():
        runs = Runs(store, [agent])
        if verb == "resume":
            await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
            await runs.approve("s")
        faults.fail(is_kept=True)
        with pytest.raises(StoreUnavailable):
            await (runs.start(agent, "Go.", session="s") if verb == "start" else runs.resume("s"))
        async with asyncio.timeout(10):
            outcome = await runs.wait("s") if look == "wait" else (await collect(runs.observe("s")))[-1]
        assert (outcome.status, outcome.reason) == ("failed", LOST)
        await runs.resume("s")
        if verb == "start":
            assert (await runs.wait("s", 10)).status == "awaiting_user"
            await runs.approve("s")
            await runs.resume("s")
        assert (await runs.wait("s", 10)).text == "Done."

    asyncio.run(talk())
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_began_unseen_and_was_deleted_is_not_found():
    """To look for it makes no session of its name."""
    store, _ = interrupted(1, is_kept=True)
    agent = agent_with(FakeModel())

    async def talk() -> None:
        runs = Runs(store, [agent])
        with pytest.raises(StoreUnavailable):
            await runs.start(agent, "Go.", session="s")
        store.delete("s")
        with pytest.raises(NotFound):
            await runs.wait("s", 10)

    asyncio.run(talk())
    assert store.cards() == []


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_a_bill_is_written_once_although_its_commit_fails(is_kept):
    """The summariser was paid, whatever became of the note of it."""
    store = MemoryStore()
    faults = CommitFaults(store)

    async def talk():
        driver = RunDriver(agent_with(FakeModel()), store, "s")
        await driver.begin("Go.")
        bills = [[SummaryPaid(usd=0.5)]]
        driver.journal.bills = lambda: bills.pop() if bills else ()
        faults.fail(is_kept=is_kept)
        await driver.journal.write()
        await driver.journal.write(foveal.assistant("Behind it."))
        await driver.let_go()

    asyncio.run(talk())
    told = [type(one) for one in read_events(store, "s") if isinstance(one, SummaryBilled | ModelReplied)]
    assert told == [SummaryBilled, ModelReplied]


def test_a_bill_that_was_kept_unseen_hides_no_reply():
    """Two failures: the first commit was made, and the next one, with a reply that is paid for, was not."""
    store = MemoryStore()
    faults = CommitFaults(store)

    async def talk():
        driver = RunDriver(agent_with(FakeModel()), store, "s")
        await driver.begin("Go.")
        bills = [[RunLeft()]]
        driver.journal.bills = lambda: bills.pop() if bills else ()
        faults.fail(is_kept=True)
        await driver.journal.write()
        driver.journal.put(foveal.assistant("Paid for."))
        faults.fail(is_kept=False)
        with pytest.raises(StoreUnavailable):
            await driver.journal.write()
        await driver.let_go()

    asyncio.run(talk())
    told = [one.text for one in read_events(store, "s") if isinstance(one, ModelReplied)]
    assert told == ["Paid for."]


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_a_result_that_fails_to_be_written_ends_no_tool_beside_it(is_kept):
    """A mail that is being sent is sent once, although the commit of another result fails meanwhile."""
    store, sent = MemoryStore(), list[int]()
    faults = CommitFaults(store)

    @tool
    async def quick(n: int) -> str:
        faults.fail(is_kept=is_kept)
        return "quick"

    @tool
    def mail(n: int) -> str:
        time.sleep(0.1)  # in a thread, which nobody can stop
        sent.append(n)
        return "sent"

    model = FakeModel(says("", ("quick", {"n": 1}), ("mail", {"n": 2})), says("Done."))
    outcome = asyncio.run(finished(agent_with(model, quick, mail), store))
    assert (outcome.text, sent, faults.are_over) == ("Done.", [2], True)
    assert run_problems(read_events(store, "s")) == []


def test_a_result_that_no_log_can_hold_is_an_error_of_its_call_alone(store):
    """The model reads why, and the call beside it has its result."""
    paid = list[int]()

    @tool
    async def odd(n: int) -> ToolOutput:
        return ToolOutput((object(),))  # type: ignore[arg-type]

    @tool
    async def pay(n: int) -> str:
        paid.append(n)
        return "paid"

    model = FakeModel(says("", ("odd", {"n": 1}), ("pay", {"n": 2})), says("Done."))
    outcome = asyncio.run(agent_with(model, odd, pay).run("Go.", session="s", store=store))
    told = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"]
    assert (outcome.text, paid, told[1]) == ("Done.", [2], "paid")
    assert "cannot be kept" in told[0]


def test_an_item_that_no_log_can_hold_takes_nothing_with_it_that_was_put_beside_it(store):
    bad = foveal.result("call_0", object())  # type: ignore[arg-type]

    async def talk():
        driver = RunDriver(agent_with(FakeModel()), store, "s")
        await driver.begin("Go.")
        driver.journal.put(foveal.assistant("Before."))
        driver.journal.put(bad)
        driver.journal.put(foveal.assistant("Behind."))
        with pytest.raises(BadEntry):
            await driver.journal.write()
        await driver.journal.write(foveal.assistant("Later."))
        await driver.let_go()

    asyncio.run(talk())
    told = [one.text for one in read_events(store, "s") if isinstance(one, ModelReplied)]
    assert told == ["Before.", "Behind.", "Later."]


class Mailers:
    """An agent that has a sub-agent send a mail, by a tool of its own or by `spawn`; each mail is counted."""

    def __init__(self, verb: str) -> None:
        self.sent: list[str] = []

        @tool
        async def mail(to: str) -> str:
            self.sent.append(to)
            return "sent"

        below = FakeModel(calls("mail", to="bob"), says("The mail is sent, and Bob has it. " * 9))
        self.above = FakeModel(calls(verb, task="Mail Bob."), *[says("Done.")] * 2)
        self.mailer = agent_with(below, mail, name="mailer", description="mails")
        given = [self.mailer]
        delegated, detached = (given, []) if verb == "delegate" else ([], given)
        self.agent = agent_with(self.above, name="boss", agents=delegated, detached=detached)

    async def finished(self, store) -> list[str]:
        """The status and the text of the run and of the one below it; each is resumed when it has failed."""
        runs = Runs(store, [self.agent, self.mailer])
        run = await runs.start(self.agent, "Go.", session="s")
        first = await self._ended(runs, run)
        return [first, *[await self._ended(runs, child) for child in runs.state(run).children.values()]]

    async def _ended(self, runs: Runs, run: str) -> str:
        outcome = await runs.wait(run, 10)
        if outcome.status == "failed":
            assert outcome.reason == LOST
            await runs.resume(run)
            outcome = await runs.wait(run, 10)
        return f"{outcome.status} {outcome.text[:8]}"


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
@pytest.mark.parametrize("verb", ["delegate", "spawn"])
def test_a_sub_agent_does_its_work_once_although_a_commit_fails(verb, is_kept):
    """The run above, or below, fails and can be resumed; no second sub-agent is begun, and none is left behind or held."""
    for number in count(2):
        store, faults = interrupted(number, is_kept=is_kept)
        mailers = Mailers(verb)
        texts = asyncio.run(mailers.finished(store))
        assert (texts, mailers.sent) == (["completed Done.", "completed The mail"], ["bob"]), number
        names = [card.id for card in store.cards()]
        assert len(names) == 2, number
        for name in names:
            store.acquire(name).release()
            assert run_problems(read_events(store, name)) == [], number
        if not faults.are_over:
            assert number > 12
            return


def test_the_answer_of_a_user_reaches_the_sub_agent_although_its_inbox_fails(store, monkeypatch):
    """The run fails, and hands the answer on when it is resumed."""
    got = list[str]()

    @tool
    async def ask(ctx: ToolContext) -> str:
        if ctx.answer is None:
            raise AskUser("Which?", ["a", "b"])
        got.append(ctx.answer.text)
        return "thanks"

    below = FakeModel(calls("ask"), says("The user said which, and I am sure of it. " * 9))
    agent = agent_with(
        FakeModel(calls("delegate", task="Ask."), says("Done.")),
        agents=[agent_with(below, ask, name="asker", description="asks")],
    )
    acquire = store.acquire

    def lost(name: str, **options):
        if name.startswith("s/asker") and name.endswith(".inbox"):
            raise StoreUnavailable(LOST)
        return acquire(name, **options)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        assert (await runs.wait(run, 10)).status == "awaiting_user"
        with monkeypatch.context() as away:
            away.setattr(store, "acquire", lost)
            await runs.resume(run, "a")
            assert (await runs.wait(run, 10)).reason == LOST
        await runs.resume(run)
        return await runs.wait(run, 10)

    assert (asyncio.run(talk()).text, got) == ("Done.", ["a"])


class LostStore(MemoryStore):
    """A store whose commits all fail while it is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.is_lost = False

    def load(self, *given, **options):
        opened = super().load(*given, **options)
        append = opened.writer.append

        def tried(drafts, **more):
            if self.is_lost:
                raise StoreUnavailable(LOST)
            return append(drafts, **more)

        opened.writer.append = tried
        return opened


async def broken(store, **options) -> tuple[Runs, str]:
    """A run whose driver has ended, and could write neither its reply nor its end."""

    def reply(request):
        store.is_lost = True
        return says("Done.")

    agent = agent_with(FakeModel(by=reply), **options)
    runs = Runs(store, [agent])
    run = await runs.start(agent, "Go.", session="s")
    with pytest.raises(StoreUnavailable):
        await runs.wait(run, 10)
    return runs, run


def test_a_run_whose_end_could_not_be_written_is_waited_for_again():
    """As long as the store is lost, whoever waits is told so; when it is back, the run has failed and can be resumed."""

    async def talk():
        store = LostStore()
        runs, run = await broken(store)
        with pytest.raises(StoreUnavailable):
            await runs.wait(run, 10)
        store.is_lost = False
        outcome = await runs.wait(run, 10)
        assert (outcome.status, outcome.reason) == ("failed", LOST)
        again = Runs(store, [agent_with(FakeModel(says("Done.")))])
        await again.resume(run)
        assert (await again.wait(run, 10)).text == "Done."
        assert run_problems(read_events(store, "s")) == []

    asyncio.run(talk())


def test_a_run_whose_end_could_not_be_written_is_observed_to_its_end():
    """The stream of a listener who comes later ends with the end that is written then."""

    async def talk():
        store = LostStore()
        runs, run = await broken(store)
        store.is_lost = False
        async with asyncio.timeout(10):
            assert isinstance((await collect(runs.observe(run)))[-1], RunEnded)

    asyncio.run(talk())


def test_a_run_whose_end_could_not_be_written_is_left_to_whoever_has_taken_it_up():
    """Its end is not written into a run that goes on elsewhere: whoever waits gets the answer."""

    async def talk():
        store = LostStore()
        runs, run = await broken(store)
        store.is_lost = False
        model = FakeModel(says("Done."))
        elsewhere = Runs(store, [agent_with(model)])
        assert await elsewhere.recover() == [run]
        assert (await runs.wait(run, 10)).text == "Done."

    asyncio.run(talk())
