"""Why a fold was made, and what was expected of it: recorded with the fold, in the log and in the trace."""

import json

import pytest

from foveal.models.catalogue import find
from foveal.session.options import Clock
from foveal.session.planner import LOOK_EVERY
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.rows import to_entry
from foveal.testing.builders import READ_TOOL
from foveal.values.entry import Fold, ToolCall, assistant, result, user
from foveal.values.own_tools import CHECKPOINT_TOOL

OTHER_TOOL = {"name": "other", "description": "Another.", "parameters": {"type": "object", "properties": {}}}


class StoppedClock:
    """Stands still until somebody moves it."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Agent:
    """Makes calls: asks for the prompt, replies with a call of `read`, appends its result."""

    def __init__(self, limit: int = 60_000, **options: object) -> None:
        self.store, self.clock, self.steps = MemoryStore(), StoppedClock(), 0
        policy = Policy(budget=BudgetTable(limit=limit, reserve=0), recall=False, **options)  # pyright: ignore[reportArgumentType]
        self.session = Session(self.store, "s", model="gpt-5", policy=policy, clock=Clock(now_ms=self.clock))
        self.session.append(user("Go."))

    def step(self, path: str = "", lines: int = 8, tools=(READ_TOOL,)):
        self.steps += 1
        prompt = self.session.prompt(tools)
        call = ToolCall(f"c{self.steps}", "read", json.dumps({"path": path or f"{self.steps}.py"}))
        told = "\n".join(f"{path or self.steps} = {n * 7919 % 1009}" for n in range(lines))
        self.session.extend([assistant("", call), result(call.id, told)])
        return prompt

    def stale(self) -> None:
        """Two reads of one file: the first can go."""
        self.step("same.py", lines=300)
        self.step("same.py", lines=300)

    @property
    def recorded(self) -> Fold:
        entries = [to_entry(row, "s") for row in self.store.rows("s")]
        return next(entry.body for entry in reversed(entries) if isinstance(entry.body, Fold))


def stake_of(fold):
    assert fold
    assert fold.stake
    return fold.stake


def test_forced_by_the_budget() -> None:
    """What there was too much of, how fast it came, at which prices; the same in the prompt, its trace and the log."""
    agent = Agent(3_000)
    prompts = [agent.step(lines=60) for _ in range(16)]
    prompt = next(prompt for prompt in prompts if prompt.fold)
    stake, facts = stake_of(prompt.fold), find("gpt-5")
    assert stake.kind == "budget"
    assert stake.made == prompt.call - 1
    assert stake.room < 0
    assert stake.growth > 100
    assert (stake.read, stake.write) == (facts.price_cache_read, facts.price_cache_write)
    assert prompt.trace.fold is not None
    assert (prompt.trace.fold.stake, prompt.trace.fold.items) == (stake, ())
    last = [prompt for prompt in prompts if prompt.fold][-1]
    assert stake_of(agent.recorded) == stake_of(last.fold)


def test_no_fold_no_stake() -> None:
    """A prompt that nothing was folded for says so."""
    prompt = Agent().step()
    assert prompt.fold is prompt.trace.fold is None


def test_asked_for_by_hand() -> None:
    """The room that was left is no reason against it, and is recorded."""
    agent = Agent()
    for _ in range(6):
        agent.step(lines=60)
    fold = agent.session.compaction.fold()
    assert stake_of(fold).kind == "hand"
    assert stake_of(fold).room > 0
    assert stake_of(agent.recorded) == stake_of(fold)


def test_at_a_checkpoint() -> None:
    """The budget was not reached, and the agent had said that a part is finished."""
    agent = Agent(4_000, compact=Compact(checkpoint=True))
    while agent.session.compaction.pressure().share < 0.85:
        agent.step(lines=12)
    agent.session.prompt([READ_TOOL])
    told = {
        "summary": "Read all parts, one by one, and found the slow one.",
        "state": "Nothing changed.",
        "next": "Fix it.",
    }
    agent.session.append(assistant("", ToolCall("k", CHECKPOINT_TOOL, json.dumps(told))))
    agent.session.serve()
    stake = stake_of(agent.session.prompt([READ_TOOL]).fold)
    assert stake.kind == "checkpoint"
    assert stake.room >= 0


def test_free_while_the_cache_is_cold() -> None:
    """An hour later the provider has forgotten everything: what is stale goes, and the reason says that it is free."""
    agent = Agent()
    agent.stale()
    agent.clock.now_ms += 3_600_000
    prompt = agent.step()
    assert prompt.fold is not None
    assert stake_of(prompt.fold).kind == "cold"
    assert prompt.fold.reason == f"the cache is cold, so that {prompt.fold.saved:,} stale tokens go for free"


def test_free_while_the_tools_change() -> None:
    """Another list of tools moves everything: so does the fold, at no price of its own."""
    agent = Agent()
    agent.stale()
    prompt = agent.step(tools=(READ_TOOL, OTHER_TOOL))
    assert prompt.fold is not None
    assert stake_of(prompt.fold).kind == "moved"
    assert "the tools or the model changed" in prompt.fold.reason


@pytest.mark.parametrize("pays", [True, False])
def test_early_where_it_pays(pays: bool) -> None:
    """Little stands behind the stale reads, or much: the numbers decide, and those of a fold that is made are recorded."""
    agent = Agent()
    for _ in range(3):
        agent.step("same.py", lines=500 if pays else 60)
    for _ in range(LOOK_EVERY - 4):
        agent.step(lines=8 if pays else 100)
    fold = agent.step().fold
    assert bool(fold) is pays
    if fold:
        stake = stake_of(fold)
        assert (stake.kind, stake.made) == ("early", LOOK_EVERY - 1)
        assert stake.pays(fold.saved, fold.rebilled)
        assert fold.reason == stake.explain(fold.saved, fold.rebilled)


def economical(limit: int = 250_000, **options: object) -> Agent:
    """An agent with a window that holds all that it reads here."""
    return Agent(limit, **options)


@pytest.mark.parametrize(("economy", "most"), [("whole", 10**9), ("lean", 42_000)])
def test_a_window_that_holds_everything_is_not_filled_where_a_fold_pays(economy: str, most: int) -> None:
    """With `lean` no prompt is much above 40,000 tokens although 250,000 would fit; with `whole` nothing is folded."""
    agent = economical(economy=economy)
    prompts = [agent.step(lines=120) for _ in range(72)]
    folds = [prompt.fold for prompt in prompts if prompt.fold]
    assert max(prompt.tokens for prompt in prompts) <= most
    assert [stake_of(fold).kind for fold in folds] == ["economy"] * len(folds)
    assert bool(folds) is (economy == "lean")
    if folds:
        stake = stake_of(folds[0])
        assert stake.pays(folds[0].saved, folds[0].rebilled)
        assert "tokens less for about" in folds[0].reason


def test_few_calls_with_large_results_are_not_folded_for_economy() -> None:
    """Nothing says that a session of a few calls goes on long enough to pay for the fold."""
    agent = economical(economy="lean")
    prompts = [agent.step(lines=1_500) for _ in range(8)]
    assert prompts[-1].tokens > 45_000
    assert not any(prompt.fold for prompt in prompts)


@pytest.mark.parametrize(
    ("policy", "tokens"),
    [
        (Policy(), 80_000),
        (Policy(max_context_tokens=100_000), None),
        (Policy(budget=BudgetTable(limit=100_000)), None),
        (Policy(budget=BudgetTable(trigger=100_000)), None),
        (Policy(budget=BudgetTable(trigger=100_000), economy="balanced"), 80_000),
        (Policy(economy="lean"), 40_000),
        (Policy(economy="whole"), None),
    ],
)
def test_economy_is_balanced_where_the_policy_names_no_limit(policy: Policy, tokens: int | None) -> None:
    """Who names a limit has said how much is sent; else the bill decides."""
    assert policy.economy_tokens == tokens


def test_economy_leaves_a_smaller_limit_alone() -> None:
    """Where the limit is below, the limit is what a fold is made for."""
    agent = Agent(4_000, economy="lean")
    folds = [prompt.fold for _ in range(16) if (prompt := agent.step(lines=60)).fold]
    assert {stake_of(fold).kind for fold in folds} == {"budget"}
