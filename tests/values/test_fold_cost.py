"""When an early fold pays, what is expected of it, and what a summary is worth carrying."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.fit.fit import fit, run_fit
from foveal.fit.scene import Scene
from foveal.project.view import View
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.codec import decode, encode
from foveal.values.entry import Entry, Fold, ToolCall, assistant, result, user
from foveal.values.fold_cost import FETCHED_TOKENS, MARGIN, FoldEconomics, Prices, calls_left, carry_threshold
from foveal.values.shown import Size

GPT_5 = {"read": 0.125, "write": 1.25}


def test_as_many_calls_are_expected_as_were_made_and_fit() -> None:
    """The smaller of the two, and never fewer than none."""
    assert calls_left(10, room=100_000, growth=500.0) == 10
    assert calls_left(40, room=10_000, growth=500.0) == 20
    assert calls_left(40, room=-1, growth=500.0) == 0
    assert calls_left(40, room=7, growth=-3.0) == 7


def test_what_a_fold_saves_is_room_for_the_next_one() -> None:
    """Forced, no call was left without it; with it, as many as what it took out has room for."""
    stake = FoldEconomics("budget", made=43, room=-3, growth=387.2)
    assert (stake.calls, stake.calls_after(6_683)) == (0, 17)


@pytest.mark.parametrize(("saved", "pays"), [(12_000, False), (12_001, True)])
def test_it_pays_when_it_saves_more_than_twice_its_price(saved: int, pays: bool) -> None:
    """15 calls at a tenth of the price must save more than MARGIN times what is billed anew at nine tenths."""
    stake = FoldEconomics("early", made=15, room=99_000, growth=100.0, **GPT_5)
    assert stake.calls == 15
    assert stake.pays(saved, 10_000) is pays
    assert (stake.gain(saved) > MARGIN * stake.price(10_000)) is pays


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 500), st.integers(-(10**6), 10**6))
def test_more_saved_never_pays_less(saved: int, rebilled: int, made: int, room: int) -> None:
    """Whatever pays, pays with one more token saved or one less billed anew."""
    stake = FoldEconomics("early", made=made, room=room, growth=250.0, **GPT_5)
    if stake.pays(saved, rebilled):
        assert stake.pays(saved + 1, rebilled)
        assert stake.pays(saved, max(0, rebilled - 1))


def test_a_fold_keeps_what_it_was_decided_on() -> None:
    """The log gives it back, in few bytes, and leaves out what there is nothing to say of."""
    fold = Fold((), "why", 20_000, 12_000, 9_000, FoldEconomics("early", 47, 3_120, 210.4, **GPT_5))
    assert decode(encode(fold)) == fold
    assert fold.saved == 8_000
    assert len(msgspec.json.encode(fold.stake)) < 90
    assert msgspec.json.encode(FoldEconomics("hand")) == b'{"kind":"hand"}'
    assert b"stake" not in encode(msgspec.structs.replace(fold, stake=None))


def test_what_a_summary_carries_is_weighed_against_fetching_it() -> None:
    """A token written once and read by ten calls, against a call of its own that reads the prompt and adds a page."""
    prices = Prices(read=0.1, write=1.25)
    carried, fetched = 1.25 + 10 * 0.1, 20_000 * 0.1 + FETCHED_TOKENS * 1.25
    assert carry_threshold(prices, calls=10, prompt=20_000) == pytest.approx(carried / (MARGIN * fetched))


@given(st.integers(0, 1_000), st.integers(1, 10**6))
def test_what_is_carried_for_longer_must_be_likelier_to_be_needed(calls: int, prompt: int) -> None:
    """And the longer the prompt that a recall would read, the less likely."""
    prices = Prices(read=0.1, write=1.25)
    least = carry_threshold(prices, calls=calls, prompt=prompt)
    assert carry_threshold(prices, calls=calls + 1, prompt=prompt) > least
    assert carry_threshold(prices, calls=calls, prompt=prompt + 1) < least


def no_originals(seqs: Sequence[int]) -> Mapping[int, Entry]:
    """Answer a fit whose stages ask for nothing."""
    raise AssertionError(seqs)


class Asking(msgspec.Struct):
    """A stage that folds nothing, and notes what a summary would be held to."""

    last_resort: bool = False
    heard: list[float] = []

    def __call__(self, scene: Scene) -> tuple[()]:
        self.heard.append(scene.least)
        return ()


def grown(calls: int) -> View:
    """The view of a session in which so many calls read 6 000 lines."""
    session = Session(MemoryStore(), "s", model="gpt-5", policy=Policy(budget=BudgetTable(limit=200_000, reserve=0)))
    session.append(user("Read."))
    for call in range(calls):
        lines = "\n".join(f"line {n}" for n in range(6_000 // calls))
        session.extend([assistant("", ToolCall(f"c{call}", "read", "{}")), result(f"c{call}", lines)])
    return session.view


def test_a_session_that_grows_slowly_keeps_less_in_its_summary() -> None:
    """It carries the summary through more calls until the next fold. Without prices nothing is weighed."""
    stage, prices = Asking(), Prices(read=0.1, write=1.25)
    most, aim = Size(10**6, 10**9), Size(1_000, 10**9)
    for calls in (5, 50):
        run_fit(fit(grown(calls), most, aim, [stage], trigger=Size(10_000, 10**9), prices=prices), no_originals)
    run_fit(fit(grown(5), most, aim, [stage], trigger=Size(10_000, 10**9)), no_originals)
    fast, slow, unpriced = stage.heard
    assert slow > 2 * fast > unpriced == 0.0
