"""Every figure of one replay, on policies that are written here."""

from hypothesis import given
from hypothesis import strategies as st

from foveal.analysis.measurement.case import Sent, tokens_of
from foveal.analysis.measurement.outcome import Job, list_tokens, measure
from foveal_bench.baselines import full

from .sessions import case

USES = {18: "secret_0_name", 19: "secret_17_name"}


def outcome(runner, budget=100_000, one=None):
    return measure(one or case(uses=USES), Job("mine", budget), runner)


def without_first_result(one, budget):
    for place in one.calls:
        shown = [m if i != 3 or place < 10 else {**m, "content": "gone"} for i, m in enumerate(one.messages[:place])]
        yield Sent(shown, one.tools)


def test_the_whole_history_misses_nothing_and_moves_nothing():
    """What everybody is compared with is complete, valid and never changes its prefix."""
    figures = outcome(full).figures
    assert (figures.far, figures.far_shown, figures.complete) == (1, 1, 1)
    assert (figures.moves, figures.invalid, figures.task_lost, figures.refused) == (0, 0, 0, 0)


def test_the_whole_history_is_billed_as_the_whole_history():
    """Tokens sent and shared are those of the raw bill, call by call."""
    for sent, shared, raw, raw_shared in outcome(full).tokens:
        assert (sent, shared) == (raw, raw_shared)


def test_what_is_gone_is_missed_and_its_going_moves_the_prefix_once():
    """Turn 18 uses a name of the result that was blanked."""
    figures = outcome(without_first_result).figures
    assert (figures.far_shown, figures.complete, figures.moves) == (0, 0, 1)
    assert figures.ages_shown == [0, 0, 0, 0]
    assert sum(figures.ages) == 1


def test_what_is_named_by_reference_is_on_offer():
    """The original behind a reference counts as on offer, not as shown."""

    def offering(one, budget):
        for sent in without_first_result(one, budget):
            yield Sent(sent.messages, sent.tools, lambda: ["secret_0_name"])

    figures = outcome(offering).figures
    assert (figures.far_shown, figures.far_offered) == (0, 1)


def test_calls_above_the_budget_are_counted():
    """Everybody's tokens are counted by the same counter, whatever they count themselves."""
    one = case()
    budget = one.raw[10]
    assert outcome(full, budget, one).figures.over == len(one.calls) - 11


def test_an_orphaned_result_is_invalid():
    """A result without its call is refused by the provider."""

    def orphaning(one, budget):
        for place in one.calls:
            shown = one.messages[:place] if place < 6 else one.messages[:2] + one.messages[3:place]
            yield Sent(shown, one.tools)

    figures = outcome(orphaning).figures
    assert figures.invalid == figures.calls - 2


def test_a_policy_that_raises_is_a_result_and_not_the_end():
    """What it did not do counts as refused, and the reason is told."""

    def failing(one, budget):
        yield Sent(one.messages[: one.calls[0]], one.tools)
        raise ZeroDivisionError("no room")

    found = outcome(failing)
    assert found.failed == "ZeroDivisionError: no room"
    assert found.figures.refused == found.figures.calls - 1
    assert found.figures.far_shown == 0


def test_the_first_request_is_missed_where_it_is_not_shown():
    """An agent without its task is lost, however short its prompt is."""

    def forgetting(one, budget):
        for place in one.calls:
            yield Sent([one.messages[0], *one.messages[2:place]], one.tools)

    figures = outcome(forgetting).figures
    assert figures.task_lost == figures.calls


def test_only_lists_of_names_that_nobody_wrote_count_as_lists():
    """A line of names in a summary is counted; the same line in the recording, or a line of prose, is not."""
    line = "parse_url getUser src/a.py main_loop 48213"
    assert list_tokens(line, frozenset()) > 5
    assert list_tokens(line, frozenset({line})) == 0
    assert list_tokens("the parser in src/a.py calls getUser when it is done", frozenset()) == 0


@given(st.integers(2, 19))
def test_a_shared_prefix_is_what_both_prompts_begin_with(cut):
    """If message `cut` changes at some call, what stands before it is shared and nothing else."""
    one = case()

    def changing(given, budget):
        yield from (Sent(given.messages[:place], given.tools) for place in given.calls[:-1])
        last = [m if i != cut else {**m, "content": "other"} for i, m in enumerate(given.messages[: given.calls[-1]])]
        yield Sent(last, given.tools)

    _, shared, _, _ = outcome(changing, one=one).tokens[-1]
    assert shared == sum(map(tokens_of, one.messages[:cut]))
