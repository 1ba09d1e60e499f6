"""`foveal.analysis.inspect`: the questions about a stored session, as functions that return values."""

from typing import cast

import pytest

from foveal import NotFound, Session, user
from foveal.analysis import call_cost, cost, entry_history, history, next_fold, prefix_moves, why
from foveal.analysis.inspect.prefix_moves import PrefixMove
from foveal.analysis.inspect.stored_session import stored_prompt
from foveal.models.catalogue import find
from foveal.stores import MemoryStore
from foveal.stores.port import Store


class CountingStore:
    """A store that counts how often the log of a session is read."""

    def __init__(self, store):
        self._store, self.reads = store, 0

    def __getattr__(self, name):
        self.reads += name == "rows"
        return getattr(self._store, name)


def test_the_trace_of_every_call_is_the_one_of_its_prompt(eventful):
    """Lines, totals and fold of each call, put together from shared lines, equal those of the prompt built again."""
    found = history(eventful, "s")
    assert [found.trace(one.cost.call) for one in found.calls] == [
        stored_prompt(eventful, "s", call)[0].trace for call in range(1, len(found.calls) + 1)
    ]


def test_the_lines_of_every_call_add_up_to_its_bill(demo):
    """A call's tokens are the sum of its lines, its tools and its framing."""
    store, session, _ = demo
    found = history(store, session)
    bills = [one.cost.sent for one in found.calls]
    assert [found.trace(one.cost.call).tokens for one in found.calls] == [bill and bill.tokens for bill in bills]


def test_a_call_holds_only_the_lines_that_changed(demo):
    """All calls together hold fewer than a quarter of the lines of all prompts."""
    store, session, _ = demo
    found = history(store, session)
    held = sum(len(one.new_lines) for one in found.calls)
    assert held < sum(len(found.trace(one.cost.call).lines) for one in found.calls) / 4
    assert found.calls[0].kept_lines == 0


def test_the_history_reads_the_log_once(demo):
    """One pass, however many calls there are."""
    store, session, _ = demo
    counting = CountingStore(store)
    history(cast("Store", counting), session)
    assert counting.reads == 1


def test_the_history_holds_the_costs(demo):
    """Bills, folds and sums equal those of `cost`; the last call's equal those of `call_cost`."""
    store, session, _ = demo
    found, costs = history(store, session), cost(store, session)
    assert tuple(one.cost for one in found.calls) == costs.per_call
    assert (found.folds, found.total) == (costs.folds, costs.total)
    last = call_cost(store, session, found.calls[-1].cost.call)
    assert (last.cost, last.near) == (found.calls[-1].cost, found.next_fold)


def test_the_history_holds_the_prefix_moves(eventful):
    """Those of every call equal the answer of `prefix_moves` about it."""
    found = history(eventful, "s")
    assert [one.prefix for one in found.calls] == [
        prefix_moves(eventful, "s", call) for call in range(1, len(found.calls) + 1)
    ]
    assert found.calls[-1].prefix == prefix_moves(eventful, "s")
    named = {move.who for one in found.calls for move in one.prefix.movers}
    assert named >= {"fold", "fence", "tools", "model", "rewind"}


def test_a_move_has_the_price_of_the_tokens_behind_it(eventful):
    """Each token costs the difference of fresh and cached input; the call pays for its largest move alone."""
    moved = prefix_moves(eventful, "s", 11)
    facts = find("gpt-5")
    assert facts.price_cache_write is not None
    assert facts.price_cache_read is not None
    each = (facts.price_cache_write - facts.price_cache_read) / 1e6
    tools = next(move for move in moved.movers if move.who == "tools")
    assert tools == PrefixMove("tools", "came: write", tools.tokens, tools.usd)
    assert tools.usd == pytest.approx(tools.tokens * each)
    assert moved.tokens == max(move.tokens for move in moved.movers)


def test_the_next_fold_is_told_for_the_next_call(demo):
    """With its room and growth; a call for which a fold was made has no next fold."""
    store, session, _ = demo
    near, found = next_fold(store, session), history(store, session)
    assert near is not None
    assert near == found.next_fold
    assert near.room == near.due - near.messages > 0
    assert next_fold(store, session, found.folds[0].call) is None
    after = next_fold(store, session, found.folds[0].call + 1)
    assert after is not None
    assert after.has_folded


def test_why_explains_a_prompt(demo):
    """The trace of the call, the summary with the messages that it covers, and an exact counter."""
    store, session, done = demo
    found = why(store, session, 60)
    assert found.trace == stored_prompt(store, session, 60)[0].trace
    assert found.trace.tokens == done.calls[59].sent.tokens
    assert found.counter_error == ""
    assert found.summary is not None
    assert found.summary.author == "code"
    assert found.summary.ranges == tuple(line.entry for line in found.trace.lines if line.kind == "range")


def test_the_history_of_an_entry_names_its_folds(demo):
    """An entry that the summary covers: its line is the range's, its original is whole."""
    store, session, _ = demo
    summary = why(store, session, 60).summary
    assert summary is not None
    covered = summary.covers[5]
    found = entry_history(store, session, covered[:12], 60)
    assert (found.ref, found.line.kind) == (covered[:10], "range")
    assert found.folds[-1].policy == "summarise"
    assert found.original
    assert found.stand_in != found.original
    earlier = entry_history(store, session, covered, 5)
    assert (earlier.folds, earlier.stand_in) == ((), None)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: history(store, "s"),
        lambda store: cost(store, "s"),
        lambda store: prefix_moves(store, "s"),
        lambda store: next_fold(store, "s"),
        lambda store: why(store, "s"),
    ],
)
def test_a_session_without_a_prompt_is_refused(ask):
    """Every question raises `NotFound` and says that nothing was sent."""
    store = MemoryStore()
    with Session(store, "s", model="gpt-5") as session:
        session.append(user("Go."))
    with pytest.raises(NotFound, match="has no prompt yet"):
        ask(store)


def test_a_call_that_is_not_there_is_refused(eventful):
    """By every question that takes the number of a call, with the calls that there are."""
    found = history(eventful, "s")
    for ask in (
        found.trace,
        lambda call: call_cost(eventful, "s", call),
        lambda call: prefix_moves(eventful, "s", call),
    ):
        with pytest.raises(NotFound, match="there is n"):
            ask(99)


def test_an_unknown_session_is_named_with_those_that_are_there(eventful):
    """A typo is answered by the names in the store."""
    with pytest.raises(NotFound, match="there is no session 'x' in this store; it has s"):
        history(eventful, "x")
