"""`foveal why --prefix`: who moved what a provider had cached, and what it cost."""

import pytest

from foveal import Pin, Policy, ToolCall, assistant, open_store, result, system, user
from foveal.context.fences import FenceKind
from foveal.context.injection import NextCall
from foveal.context.reminders import ReminderRule as Reminder
from foveal.models.catalogue import cost_usd, find
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.options import Model
from foveal.session.policy import BudgetTable
from foveal.session.session import Session

READ = {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
WRITE = {"name": "write", "description": "Writes.", "parameters": {"type": "object", "properties": {}}}
KINDS = (
    FenceKind("rules", placement="after_system", role="system", lifetime="session"),
    FenceKind("near", placement="before_request", lifetime="session"),
    FenceKind("found", placement="after_result", lifetime="session"),
    FenceKind("news", lifetime="call"),
)
CLOCK = Reminder("clock", "fact:time", "It is {time}.")


@pytest.fixture
def agent(tmp_path):
    """A session that can be stepped, in a store at a path; closed when it is asked about."""
    path = tmp_path / "agent.db"

    class Agent:
        def __init__(self):
            self.store = open_store(path)
            self.session, self.steps, self.results = self._open("gpt-5", 20_000), 0, []
            self.session.extend([system("Be brief."), user("Go.")])

        def _open(self, model, limit):
            policy = Policy(
                budget=BudgetTable(limit=limit, reserve=0), fences=KINDS, remind=True, reminders=(CLOCK,), recall=False
            )
            return Session(self.store, "s", model=Model(model, "openai_chat"), policy=policy)

        def reopen(self, model="gpt-5", limit=20_000):
            self.session.close()
            self.session = self._open(model, limit)

        def step(self, tools=(READ,), size=30):
            """A call, its reply and the result of what it asked for."""
            self.steps += 1
            prompt = self.session.prompt(tools, next_call=NextCall(facts={"time": f"12:{self.steps:02}"}))
            call = ToolCall(f"c{self.steps}", "read", f'{{"path": "{self.steps}.py"}}')
            told = f"line of {self.steps}\n" * size
            self.results.append(self.session.extend([assistant("", call), result(call.id, told)])[-1].id)
            return prompt

        def done(self):
            self.session.close()
            self.store.close()
            return path

    return Agent()


def movers(run, path, call):
    found = run("why", "s", "--prefix", "--call", call, "--store", path, "--json").json
    return [(one["who"], one["what"]) for one in found["movers"]], found


def test_nothing_moved(run, agent):
    """Reminders and fences at the tail change with every call, and nobody is named."""
    for n in range(3):
        agent.session.context.inject("news", f"news {n}")
        agent.step()
    path = agent.done()
    assert movers(run, path, 3)[1]["movers"] == []
    assert "Nothing moved" in run("why", "s", "--prefix", "--call", 3, "--store", path).out
    assert "The first call" in run("why", "s", "--prefix", "--call", 1, "--store", path).out


def test_a_fold_moved_it(run, agent):
    """With its reason, the stages that made it, and the tokens that its mark in the log says were billed anew."""
    agent.reopen(limit=3_000)
    folds = {prompt.call: prompt.fold for prompt in [agent.step(size=200) for _ in range(12)] if prompt.fold}
    path = agent.done()
    call, fold = next(iter(folds.items()))
    named, found = movers(run, path, call)
    assert [who for who, _ in named] == ["fold"]
    assert named[0][1].startswith(fold.reason)
    assert found["tokens"] == fold.rebilled
    facts = find("gpt-5")
    anew, cached = cost_usd(facts, 0, fold.rebilled, 0), cost_usd(facts, fold.rebilled, 0, 0)
    assert anew is not None
    assert cached is not None
    assert found["usd"] == pytest.approx(anew - cached)
    shown = run("why", "s", "--prefix", "--call", call, "--store", path).out
    assert f"In all {fold.rebilled:,} tokens were billed anew, {found['usd']:.4f} USD more than from the cache" in shown


def test_other_tools_moved_it(run, agent):
    """All that was sent before is behind them."""
    agent.step()
    before = agent.step()
    agent.step(tools=(READ, WRITE))
    agent.step(tools=(WRITE,))
    path = agent.done()
    named, found = movers(run, path, 3)
    assert named == [("tools", "came: write")]
    assert found["tokens"] >= before.tokens - 100
    assert movers(run, path, 4)[0] == [("tools", "went: read")]


def test_another_model_moved_it(run, agent):
    agent.step()
    agent.reopen(model="gpt-4.1")
    agent.step()
    assert movers(run, agent.done(), 2)[0] == [("model", "gpt-5 (openai_chat) became gpt-4.1 (openai_chat)")]


def test_a_fence_after_the_system_prompt_moved_it(run, agent):
    """When it comes and when it changes, and not in between."""
    agent.step()
    agent.session.context.inject("rules", "Be exact.", key="")
    agent.step()
    agent.step()
    agent.session.context.inject("rules", "Be quick.", key="")
    agent.step()
    agent.session.context.inject("rules", "", key="")
    agent.step()
    path = agent.done()
    told = {call: movers(run, path, call) for call in range(2, 6)}
    assert [named for named, _ in told.values()] == [
        [("fence", "rules: came (after_system)")],
        [],
        [("fence", "rules: changed (after_system)")],
        [("fence", "rules: went (after_system)")],
    ]
    assert told[5][1]["tokens"] > told[4][1]["tokens"] > told[2][1]["tokens"] > 0


def test_a_fence_that_follows_the_conversation_moves_it(run, agent):
    """One beside the request with every turn, one beside the newest result with every call."""
    agent.session.context.inject("near", "near", key="")
    agent.step()
    agent.step()
    agent.session.extend([assistant("Done."), user("And now?")])
    agent.step()
    agent.session.context.inject("found", "found", key="")
    agent.step()
    agent.step()
    path = agent.done()
    assert movers(run, path, 2)[0] == []
    assert movers(run, path, 4)[0] == [("fence", "near: moved on (before_request)")]
    assert movers(run, path, 6)[0] == [("fence", "found: moved on (after_result)")]


def test_a_pin_that_brings_something_back_moved_it(run, agent):
    """What was folded is whole again; pinning what was whole moves nothing."""
    agent.reopen(limit=3_000)
    while not agent.session.view.facts.folds:
        agent.step(size=200)
    agent.reopen(limit=30_000)
    agent.step()
    agent.session.append(Pin(agent.session.view.facts.first_user))
    agent.step()
    agent.session.append(Pin(agent.results[0]))
    agent.step()
    calls = agent.session.view.facts.calls
    path = agent.done()
    assert movers(run, path, calls - 1)[0] == []
    named, found = movers(run, path, calls)
    assert named == [("pin", f"{agent.results[0][:10]} was pinned")]
    assert found["tokens"] > 0


def test_a_rewind_is_named(run, agent):
    agent.step()
    entry = agent.session.view.facts.head
    agent.step()
    agent.session.branches.rewind(entry, "try another way")
    agent.session.append(user("Another way."))
    agent.step()
    path = agent.done()
    assert movers(run, path, 2)[0] == [("rewind", "try another way")]


def test_the_rest_of_a_reply_moved_it(run, agent):
    """A reply that was recorded in two pieces is shown as one, with the results after both."""
    first = agent.session.append(assistant("", ToolCall("one", "read", "{}")))
    agent.session.prompt([READ])
    agent.session.append(assistant("", ToolCall("two", "read", "{}")))
    call = agent.session.prompt([READ]).call
    named, found = movers(run, agent.done(), call)
    assert named == [("repair", f"entry {first.id[:10]} is shown in another way: more of it came later")]
    assert found["tokens"] > 0


def test_an_unknown_price_is_said(run, agent):
    """Tokens are counted all the same."""
    agent.session.close()
    with pytest.warns(UnknownModelWarning, match="mystery-1"):
        session = Session(agent.store, "m", model=Model("mystery-1", "openai_chat"))
    session.append(user("Go."))
    session.prompt([READ])
    session.extend([assistant("Done."), user("More.")])
    session.prompt([WRITE])
    session.close()
    done = run("why", "m", "--prefix", "--store", agent.done())
    assert done.code == 0
    assert "at a price that is not known" in done.out


def test_prefix_and_entry_are_two_questions(run, agent):
    agent.step()
    done = run("why", "s", "--prefix", "--entry", "x", "--store", agent.done())
    assert done.code == 2
    assert "not allowed with" in done.err


def test_fences_have_their_whole_names_in_the_trace(run, agent):
    """`why` itself lists what stood beside the call, and the sum is exact."""
    agent.session.context.inject("rules", "Be exact.", key="of-the-house")
    agent.step()
    path = agent.done()
    done = run("why", "s", "--call", 1, "--store", path)
    assert "rules:of-the-house" in done.out
    trace = run("why", "s", "--call", 1, "--store", path, "--json").json
    lines = sum(line["tokens"] for line in trace["lines"])
    assert trace["tokens"] == lines + trace["tools_tokens"] + trace["framing_tokens"]
