"""`foveal why --cost`: what calls and folds cost, by the prices of `foveal replay`, and how near the next fold is."""

import json
from itertools import accumulate

import pytest

from foveal import OverBudget, Pin, Policy, ToolCall, Usage, assistant, open_store, result, system, user
from foveal.analysis import call_cost, cost
from foveal.analysis.replay.bills import bill
from foveal.analysis.replay.demo import BUDGET, demo_recording
from foveal.analysis.replay.replay import replay
from foveal.analysis.replay.report import totals
from foveal.models.catalogue import cost_usd, find
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.options import Clock, Model
from foveal.session.planner import LOOK_EVERY
from foveal.session.policy import BudgetTable
from foveal.session.session import Session
from foveal.stores import MemoryStore
from foveal.values.entry import Unpin
from foveal.values.trace import PROMPT_TOKENS

READ = {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
WRITE = {"name": "write", "description": "Writes.", "parameters": {"type": "object", "properties": {}}}


def exactly(usd):
    """The same sum, whatever the order it was added up in."""
    return pytest.approx(usd, rel=1e-12, abs=1e-15)


@pytest.fixture(scope="module")
def demo():
    """The bundled session, replayed into a store: what the replay says, and what the store says afterwards."""
    store, recording = MemoryStore(), demo_recording()
    policy = Policy(budget=BudgetTable(limit=BUDGET, reserve=0))
    done = replay(recording, model="gpt-5", policy=policy, dialect="openai_chat", store=store)
    return done, cost(store, recording.id), store


@pytest.fixture
def agent(tmp_path):
    """A session that can be stepped, in a store at a path; closed when it is asked about."""
    path = tmp_path / "agent.db"

    class Agent:
        def __init__(self):
            self.store, self.now_ms, self.steps = open_store(path), 0, 0
            self.session = self._opened()
            self.session.extend([system("Be brief."), user("Go.")])

        def open(self, limit=60_000, model="gpt-5", economy=None):
            self.session.close()
            self.session = self._opened(limit, model, economy)

        def _opened(self, limit=60_000, model="gpt-5", economy=None):
            policy = Policy(budget=BudgetTable(limit=limit, reserve=0), economy=economy)
            clock = lambda: self.now_ms  # noqa: E731 - read anew each time
            return Session(self.store, "s", model=Model(model, "openai_chat"), policy=policy, clock=Clock(now_ms=clock))

        def step(self, path="", lines=8, tools=(READ,), usage=None):
            """A call, its reply, what the provider counted, and the result of what it asked for."""
            self.steps += 1
            prompt = self.session.prompt(tools)
            call = ToolCall(f"c{self.steps}", "read", json.dumps({"path": path or f"{self.steps}.py"}))
            told = "\n".join(f"{path or self.steps} = {n * 7919 % 1009}" for n in range(lines))
            self.session.extend([assistant("", call), *((usage,) if usage else ()), result(call.id, told)])
            return prompt

        def done(self):
            self.session.close()
            self.store.close()
            return path

    return Agent()


def asked(run, path, *words):
    done = run("why", "s", "--cost", *words, "--store", path, "--json")
    assert done.code == 0, done.err
    return done.json


def told(run, path, *words):
    """What is printed, on one line."""
    return " ".join(run("why", "s", "--cost", *words, "--store", path).out.split())


def test_calls_add_up_to_what_replay_prints(demo):
    """Tokens, tokens from the cache and dollars: of what was sent and of sending everything, call by call."""
    done, found, _ = demo
    sums, total = totals([done]), found.total
    calls = [one for one in found.per_call if one.is_answered]
    assert [one.sent for one in calls] == [call.sent for call in done.calls]
    assert [one.everything for one in calls] == [call.raw for call in done.calls]
    assert [one.output_tokens for one in calls] == [call.output_tokens for call in done.calls]
    assert (total.calls, total.sent_tokens, total.everything_tokens) == (sums.calls, sums.sent_tokens, sums.raw_tokens)
    assert (total.cached_tokens, total.everything_cached_tokens) == (sums.cached_tokens, sums.raw_cached_tokens)
    assert total.sent_usd + total.output_usd == exactly(sums.sent_usd)
    assert total.everything_usd + total.output_usd == exactly(sums.raw_usd)
    assert total.output_usd == exactly(sums.output_usd)


def test_every_fold_is_named_as_replay_names_it(demo):
    """The same calls, the same tokens."""
    done, found, _ = demo
    named = [(fold.call, fold.saved, fold.rebilled, fold.reason) for fold in found.folds]
    made = [(call.number, call.fold) for call in done.calls if call.fold]
    assert named == [(at, fold.before - fold.after, fold.rebilled, fold.reason) for at, fold in made]
    assert {fold.kind for fold in found.folds} == {"budget"}


def test_folds_and_the_rest_are_the_whole_difference(demo):
    """Nothing is saved that no line tells of, and nothing twice."""
    total, folds = demo[1].total, demo[1].folds
    assert total.folds_usd == exactly(sum(fold.net_usd for fold in folds))
    assert total.folds_usd + total.others_usd == exactly(total.everything_usd - total.sent_usd)
    assert all(fold.net_usd == exactly(fold.saved_usd - fold.cost_usd) for fold in folds)
    assert all(fold.tokens_saved == fold.saved * fold.calls_since for fold in folds)


def test_one_call_says_what_the_session_says(demo):
    """Of its bill and of its fold, until the last answered call."""
    _, found, store = demo
    at = found.folds[3].call
    one = call_cost(store, found.session, at)
    assert one.cost == found.per_call[at - 1]
    assert one.folds == (found.folds[3],)
    assert one.near is None
    assert one.last_call == len(found.per_call) - 1
    sent = one.cost.sent
    assert sent is not None
    assert one.cost.price_read is not None
    assert one.cost.price_write is not None
    assert sent.cost_usd == exactly(
        sent.cached * one.cost.price_read / 1e6 + (sent.tokens - sent.cached) * one.cost.price_write / 1e6
    )


def test_a_fold_pays_off_when_it_has_saved_its_price(demo):
    """Within the calls that there were."""
    folds = demo[1].folds
    assert all((fold.break_even is not None) == (fold.net_usd >= 0) for fold in folds)
    assert any(fold.break_even for fold in folds)
    assert all(fold.call <= fold.break_even <= 86 for fold in folds if fold.break_even)


def test_a_fold_that_has_not_paid_off_says_when_it_will_have(run, agent):
    """If calls go on as the last one. A long request stays, and is billed anew for what went before it."""
    for _ in range(6):
        agent.step(lines=100)
    agent.session.append(user("\n".join(f"Mind {n * 7919 % 1009}." for n in range(1_000))))
    agent.step()
    agent.session.compaction.fold()
    call = agent.step().call
    (made,) = asked(run, agent.done())["folds"]
    assert made["break_even"] is None
    assert made["break_even_expected"] > call


def test_the_price_of_a_fold_is_what_its_call_cost_more(run, agent):
    """Without it, all of the prompt before would have come from the cache, and the recall tools would not have come."""
    before = [agent.step(lines=300) for _ in range(6)][-1]
    fold = agent.session.compaction.fold()
    prompt = agent.step()
    agent.step()
    (made,) = asked(run, agent.done())["folds"]
    assert (made["kind"], made["call"], made["calls_since"]) == ("hand", prompt.call, 2)
    assert made["saved"] == fold.before - fold.after
    facts, tools = find("gpt-5"), prompt.setup.tools_tokens - before.setup.tools_tokens
    assert tools > 0
    whole = prompt.tokens - tools + fold.saved
    without = bill(facts, whole, before.tokens - PROMPT_TOKENS)
    alone = bill(facts, prompt.tokens, 0)
    assert alone.cost_usd is not None
    assert without.cost_usd is not None
    assert facts.price_cache_write is not None
    assert made["cost_usd"] == exactly(alone.cost_usd - without.cost_usd)
    assert made["billed_anew"] == prompt.tokens - (whole - without.cached)
    assert made["saved_usd"] == pytest.approx(
        cost_usd(facts, fold.saved, 0, 0), abs=128 * facts.price_cache_write / 1e6
    )


def test_a_fold_that_nothing_follows_yet_is_not_billed(run, agent):
    """Its call has no reply: it is listed, and adds nothing to the sums."""
    for _ in range(6):
        agent.step(lines=100)
    agent.session.compaction.fold()
    path = agent.done()
    found = asked(run, path)
    assert [(fold["calls_since"], fold["net_usd"]) for fold in found["folds"]] == [(0, None)]
    assert found["total"]["folds_usd"] == 0
    assert found["total"]["calls"] == 6
    assert "nobody has answered yet" in told(run, path)
    assert "nothing is billed for it so far" in told(run, path, "--call", 7)


@pytest.mark.parametrize("kind", ["cold", "moved"])
def test_a_fold_is_free_when_everything_is_billed_anyway(run, agent, kind):
    """An hour later, or with other tools: the call costs less than without the fold."""
    agent.step("same.py", lines=300)
    agent.step("same.py", lines=300)
    agent.now_ms += 3_600_000 * (kind == "cold")
    assert agent.step(tools=(READ,) if kind == "cold" else (READ, WRITE)).fold
    path = agent.done()
    (fold,) = asked(run, path)["folds"]
    assert fold["kind"] == kind
    assert fold["billed_anew"] == 0
    assert fold["cost_usd"] == exactly(-fold["saved"] * find("gpt-5").price_cache_write / 1e6)
    assert fold["break_even"] == fold["call"]
    assert "That cost nothing" in told(run, path, "--call", fold["call"])


def test_a_call_after_an_hour_reads_nothing_from_the_cache(run, agent):
    """Neither does one that sends everything."""
    for _ in range(4):
        agent.step(lines=300)
    agent.now_ms += 3_600_000
    agent.session.append(user("Go on."))
    agent.step()
    agent.step()
    calls = asked(run, agent.done())["per_call"]
    assert [call["sent"]["cached"] > 0 for call in calls[:6]] == [False, False, True, True, False, True]
    assert [call["everything"]["cached"] > 0 for call in calls[:6]] == [False, False, True, True, False, True]


def test_an_early_fold_tells_what_it_was_weighed_by(run, agent):
    """Calls expected without it, and both sides of the scale."""
    for _ in range(LOOK_EVERY - 4):
        agent.step()
    for _ in range(3):
        agent.step("same.py", lines=500)
    assert agent.step().fold
    path = agent.done()
    (fold,) = asked(run, path, "--call", LOOK_EVERY)["folds"]
    assert fold["kind"] == "early"
    assert fold["calls_without"] == fold["calls_made"] == LOOK_EVERY - 1
    text = told(run, path, "--call", LOOK_EVERY)
    assert f"Saving {fold['saved']:,} tokens for each of them at 0.125 a million" in text
    assert f"against {fold['rebilled']:,} tokens once at 1.25" in text


def test_an_early_fold_that_was_not_made_tells_why(run, agent):
    """What it would have saved is less than twice what it would have cost."""
    for _ in range(3):
        agent.step("same.py", lines=60)
    for _ in range(LOOK_EVERY - 4):
        agent.step(lines=100)
    assert agent.step().fold is None
    path = agent.done()
    near = asked(run, path, "--call", LOOK_EVERY)["near"]
    assert near["looked"] == "early"
    look = near["look"]
    assert look["saved"] >= 512
    assert look["gain"] == exactly(look["saved"] * look["calls_without"] * 0.125 / 1e6)
    assert look["price"] == exactly(look["rebilled"] * (1.25 - 0.125) / 1e6)
    assert look["gain"] <= look["sure"] * look["price"]
    text = told(run, path, "--call", LOOK_EVERY)
    assert f"{look['saved']:,} stale tokens less for about 15 calls" in text
    assert f"would have saved {look['gain']:.4f} USD" in text


def test_a_fold_for_economy_tells_what_it_was_weighed_by(run, agent):
    """How near it was at the call before, and then why it was made although the window would have held more."""
    agent.open(250_000, economy="lean")
    while agent.step(lines=120).fold is None:
        assert agent.steps < 80
    made, path = agent.steps, agent.done()
    near = run("why", "s", "--cost", "--call", str(made - 1), "--store", path).out
    assert "tokens one is made as soon as it is expected to pay (economy)" in " ".join(near.split())
    told = " ".join(run("why", "s", "--cost", "--call", str(made), "--store", path).out.split())
    assert "made although the window would have held more, because it was expected to pay (economy)" in told
    assert "were expected until the budget forced one" in told


def test_without_a_fold_it_tells_how_near_one_is(run, agent):
    """Room and growth give the calls that are left; the next look is named."""
    prompts = [agent.step(lines=100) for _ in range(5)]
    path = agent.done()
    near = asked(run, path, "--call", 5)["near"]
    assert near["room"] == near["due"] - near["messages"]
    assert near["growth"] == pytest.approx(near["messages"] / 4, abs=0.1)
    assert near["calls_until_forced"] == int(near["room"] / near["growth"])
    assert near["calls_expected"] == min(4, near["calls_until_forced"])
    assert (near["looked"], near["next_look"]) == (None, LOOK_EVERY)
    assert prompts[-1].tokens > near["messages"]
    text = told(run, path, "--call", 5)
    assert f"room for about {near['calls_until_forced']} more calls (estimate)" in text
    assert "not known yet" in told(run, path, "--call", 1)


def test_what_the_provider_counted_stands_beside_the_estimate(run, agent):
    """Read, written and plain tokens at the model's prices, for the calls that were reported."""
    agent.step(lines=300)
    agent.step(lines=300, usage=Usage("gpt-5", 5_000, 40, cache_read_tokens=3_000))
    path = agent.done()
    reported = asked(run, path, "--call", 2)["cost"]["reported"]
    usd = cost_usd(find("gpt-5"), 3_000, 0, 0, fresh=2_000)
    assert reported == {
        "read_tokens": 3_000,
        "written_tokens": 0,
        "plain_tokens": 2_000,
        "output_tokens": 40,
        "usd": exactly(usd),
    }
    total = asked(run, path)["total"]
    assert (total["reported_calls"], total["reported_usd"]) == (1, exactly(usd))
    assert total["estimated_usd"] < total["sent_usd"]
    assert "0 written to it and 2,000 plain" in told(run, path, "--call", 2)
    assert f"for 1 of 2 calls, their input cost {usd:.4f} USD" in told(run, path)


def test_another_model_has_its_own_prices(run, agent):
    """From the call on for which it is asked, and its cache is empty."""
    agent.step(lines=300)
    agent.open(model="gpt-4.1")
    agent.step(lines=300)
    found = asked(run, agent.done())
    first, second, _ = found["per_call"]
    assert (first["model"], second["model"]) == ("gpt-5", "gpt-4.1")
    assert second["price_write"] == find("gpt-4.1").price_cache_write
    assert second["sent"]["cached"] == second["everything"]["cached"] == 0


def test_an_unknown_price_is_said(run, agent):
    """Tokens are counted all the same; no sum passes for a bill."""
    with pytest.warns(UnknownModelWarning, match="mystery-1"):
        agent.open(model="mystery-1", limit=8_000)
    while not agent.step(lines=200).fold:
        pass
    path = agent.done()
    found = asked(run, path)
    assert found["total"]["sent_usd"] is found["total"]["folds_usd"] is found["folds"][0]["net_usd"] is None
    assert found["total"]["sent_tokens"] > 0
    assert found["folds"][0]["saved"] > 0
    assert "whose prices are not known" in told(run, path)
    assert "? USD" in told(run, path, "--call", found["folds"][0]["call"])


def test_a_call_for_which_no_prompt_could_be_made_is_not_billed(run, agent):
    """It is part of the bill of sending everything only."""
    agent.open(limit=3_000)
    agent.step()
    large = agent.session.append(user("Look at this: " + " ".join(map(str, range(4_000)))))
    agent.session.append(Pin(large.id))
    with pytest.raises(OverBudget):
        agent.session.prompt((READ,))
    agent.session.extend([assistant("Done."), Unpin(large.id), user("And now?")])
    agent.step()
    path = agent.done()
    total = asked(run, path)["total"]
    assert total["refused"] == 1
    saved = total["folds_usd"] + total["others_usd"] + total["refused_usd"]
    assert saved == exactly(total["everything_usd"] - total["sent_usd"])
    assert "No prompt could be made for it" in told(run, path, "--call", 2)
    assert "For 1 call more was mandatory" in told(run, path)


def test_pins_and_rewinds_in_between(run, agent):
    """Every call is counted as it was sent, also where a mark changed how the calls before it would be shown now."""
    agent.open(limit=3_000)
    sent = [agent.step(lines=60).tokens for _ in range(10)]
    agent.session.append(Pin(agent.session.view.facts.first_user))
    sent += [agent.step(lines=60).tokens for _ in range(4)]
    head = agent.session.view.facts.head
    agent.step(lines=60)
    agent.session.branches.rewind(head, "another way")
    agent.session.append(user("Another way."))
    sent.append(agent.step().tokens)
    calls = asked(run, agent.done())["per_call"]
    assert [call["sent"]["tokens"] for call in calls if call["is_answered"]] == sent


def test_what_is_printed_adds_up(run, agent):
    """The column of dollars: everything, less what was saved, is what was sent."""
    agent.open(limit=3_000)
    for _ in range(30):
        agent.step(lines=60)
    path = agent.done()
    lines = run("why", "s", "--cost", "--store", path).out.splitlines()
    rows = {
        line[:18].strip(): float(line.split()[-1])
        for line in lines
        if line.startswith(("everything", "  saved by", "  saved other", "sent"))
    }
    sums = list(accumulate(list(rows.values())[:-1]))
    assert sums[-1] == pytest.approx(rows["sent by Foveal"], abs=0.0002)
    assert any(line.split()[1:2] == ["budget"] for line in lines)


def test_nothing_folded_is_said(run, agent):
    """And the bill is there all the same."""
    agent.step()
    text = told(run, agent.done())
    assert "s: 1 call, 0 folds Nothing was folded." in text
    assert "sent by Foveal" in text


def test_why_itself_names_the_fold_of_a_call(run, agent):
    """With its stake as data, and the way to its price."""
    agent.open(limit=3_000)
    while not (prompt := agent.step(lines=60)).fold:
        pass
    path = agent.done()
    fold = run("why", "s", "--call", prompt.call, "--store", path, "--json").json["fold"]
    assert fold["stake"]["kind"] == "budget"
    assert fold["rebilled"] == prompt.fold.rebilled
    assert "--cost" in run("why", "s", "--call", prompt.call, "--store", path).out
    assert run("why", "s", "--call", prompt.call - 1, "--store", path, "--json").json["fold"] is None


def test_a_call_that_is_not_there_is_an_error(run, agent):
    """It says which there are."""
    agent.step()
    done = run("why", "s", "--cost", "--call", 9, "--store", agent.done())
    assert done.code == 2
    assert "there is none for call 9" in done.err


def test_a_session_without_a_prompt_has_no_cost(run, tmp_path):
    """Nothing was sent."""
    store = open_store(tmp_path / "s.db")
    with Session(store, "s", model="gpt-5") as session:
        session.append(user("Go."))
    store.close()
    done = run("why", "s", "--cost", "--store", tmp_path / "s.db")
    assert done.code == 2
    assert "nothing was sent" in done.err
