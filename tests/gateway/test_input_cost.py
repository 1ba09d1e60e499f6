"""The two bills of a conversation: as the client asked, and as it was sent."""

import pytest

from foveal import Policy, Session, assistant, open_store, result, system, user
from foveal.gateway.input_cost import InputBills, InputCost
from foveal.models import catalogue
from foveal.models.catalogue import cost_usd
from foveal.values.entry import ToolCall, Usage
from foveal.values.prompt import Prompt

MODEL = "claude-opus-4-5"


def prompts(count: int, tokens: int | None = None) -> list[Prompt]:
    """Return the prompts of a tool loop, with or without folds."""
    session = Session(open_store(), "s", model=MODEL, policy=Policy(max_context_tokens=tokens))
    session.append(system("Be careful. " * 800))
    session.append(user("Read."))
    made: list[Prompt] = []
    for i in range(count):
        made.append(session.prompt())
        session.append(assistant("", ToolCall(f"c{i}", "read", "{}")))
        session.append(result(f"c{i}", f"value_{i} = {i}\n" * 300))
    return made


def usage(tokens: int, read: int = 0) -> Usage:
    return Usage(MODEL, tokens, 5, cache_read_tokens=read)


def input_usd(tokens: int, read: int = 0) -> float:
    usd = cost_usd(catalogue.find(MODEL), read, 0, 0, fresh=tokens - read)
    assert usd is not None
    return usd


def test_the_sent_side_is_the_providers_bill() -> None:
    """Of the prompt that was sent, the price is that of the provider's own counts, cache included, over all calls."""
    cost = InputCost()
    for prompt, told in zip(prompts(3), [(50, 0), (2_000, 40), (4_000, 1_900)], strict=True):
        cost.ask(prompt, prompt.trace.raw_tokens)
        cost.report(usage(*told))
    expected = input_usd(50) + input_usd(2_000, 40) + input_usd(4_000, 1_900)
    assert cost.bills.sent_usd == pytest.approx(expected)
    assert (cost.bills.priced_calls, cost.bills.reported_calls) == (3, 3)


def test_a_prefix_that_an_earlier_conversation_has_cached_saves_nothing() -> None:
    """System prompt and tools may come from the cache at the first call: of both bills, as nothing is folded."""
    cost = InputCost()
    (prompt,) = prompts(1)
    cost.ask(prompt, prompt.trace.raw_tokens)
    cost.report(usage(30_000, 20_000))
    assert cost.bills.asked_usd == pytest.approx(cost.bills.sent_usd, rel=0.01)


def test_without_folds_both_bills_are_alike() -> None:
    """While nothing is folded, nothing is saved: the estimate follows the provider's count and its cache."""
    for share, written in ((1.0, 0), (0.9, 300), (0.0, 0)):
        cost, before = InputCost(), 0
        for prompt in prompts(6):
            told = int(prompt.tokens * 1.3)
            cost.ask(prompt, prompt.trace.raw_tokens)
            cost.report(Usage(MODEL, told, 5, cache_read_tokens=before, cache_write_tokens=min(written, told - before)))
            before = int(told * share) if told * share > 1_400 else 0
        assert cost.bills.asked_usd == pytest.approx(cost.bills.sent_usd, rel=0.01)


@pytest.mark.parametrize("hit", [1.0, 0.0])
def test_the_side_that_was_not_sent_keeps_its_cache_when_a_fold_moves_ours(hit: float) -> None:
    """The requests as asked for only grow: a provider that caches had all of the one before, whatever a fold costs us."""
    cost, before, asked_before, expected, folds = InputCost(), 0, 0, 0.0, 0
    for prompt in prompts(30, 10_000):
        asked = prompt.trace.raw_tokens
        cost.ask(prompt, asked)
        cost.report(usage(prompt.tokens, 0 if prompt.fold else int(min(before, prompt.tokens) * hit)))
        expected += input_usd(asked, int(asked_before * hit))
        before, asked_before, folds = prompt.tokens, asked, folds + (prompt.fold is not None)
    assert folds > 1
    assert cost.bills.asked_usd == pytest.approx(expected, rel=0.03)
    assert cost.bills.saved_usd > 0


def test_a_round_that_the_client_does_not_know_of_is_paid() -> None:
    """The provider's count of a recall is a price on our side alone."""
    cost = InputCost()
    cost.ask(prompts(1)[0], 50)
    cost.report(usage(50))
    before = cost.bills
    cost.report(usage(70))
    assert cost.bills.sent_usd == pytest.approx(before.sent_usd + input_usd(70))
    assert (cost.bills.asked_usd, cost.bills.priced_calls) == (before.asked_usd, 1)


def test_watching_swaps_the_sides() -> None:
    """Of a gateway that only watches, the provider counted the whole request; the prompt is the estimate."""
    made = prompts(30, 10_000)
    cost, paid = InputCost(), 0.0
    for prompt in made:
        cost.ask(prompt, prompt.trace.raw_tokens, is_whole_sent=True)
        cost.report(usage(prompt.trace.raw_tokens))
        paid += input_usd(prompt.trace.raw_tokens)
    assert cost.bills.asked_usd == pytest.approx(paid)
    assert cost.bills.sent_usd < cost.bills.asked_usd


def test_a_call_without_counts_is_estimated_when_the_next_one_begins() -> None:
    """A provider that tells no usage leaves an estimate on both sides, which says that it is one."""
    cost, made = InputCost(), prompts(2)
    cost.ask(made[0], made[0].trace.raw_tokens)
    assert cost.bills == InputBills()
    cost.ask(made[1], made[1].trace.raw_tokens)
    assert (cost.bills.priced_calls, cost.bills.reported_calls) == (1, 0)
    assert cost.bills.asked_usd == cost.bills.sent_usd > 0


def test_a_model_without_prices_is_in_no_sum() -> None:
    """Calls whose price nobody knows are counted, and not taken for free."""
    session = Session(open_store(), "s", model="house-model", policy=Policy(models={"house-model": {"window": 9_000}}))
    session.append(user("Go."))
    cost = InputCost()
    cost.ask(session.prompt(), 50, {"house-model": {"window": 9_000}})
    cost.report(Usage("house-model", 10, 5))
    assert cost.bills == InputBills(unpriced_calls=1)
