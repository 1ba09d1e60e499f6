"""When an early fold pays, and what is expected of it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.core.codec import decode, encode
from foveal.core.economy import SURE, Stake, calls_left
from foveal.core.entry import Fold

GPT_5 = {"read": 0.125, "write": 1.25}


def test_as_many_calls_are_expected_as_were_made_and_fit() -> None:
    """The smaller of the two, and never fewer than none."""
    assert calls_left(10, room=100_000, growth=500.0) == 10
    assert calls_left(40, room=10_000, growth=500.0) == 20
    assert calls_left(40, room=-1, growth=500.0) == 0
    assert calls_left(40, room=7, growth=-3.0) == 7


def test_what_a_fold_saves_is_room_for_the_next_one() -> None:
    """Forced, no call was left without it; with it, as many as what it took out has room for."""
    stake = Stake("budget", made=43, room=-3, growth=387.2)
    assert (stake.calls, stake.calls_after(6_683)) == (0, 17)


@pytest.mark.parametrize(("saved", "pays"), [(12_000, False), (12_001, True)])
def test_it_pays_when_it_saves_more_than_twice_its_price(saved: int, pays: bool) -> None:
    """15 calls at a tenth of the price must save more than SURE times what is billed anew at nine tenths."""
    stake = Stake("early", made=15, room=99_000, growth=100.0, **GPT_5)
    assert stake.calls == 15
    assert stake.pays(saved, 10_000) is pays
    assert (stake.gain(saved) > SURE * stake.price(10_000)) is pays


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 500), st.integers(-(10**6), 10**6))
def test_more_saved_never_pays_less(saved: int, rebilled: int, made: int, room: int) -> None:
    """Whatever pays, pays with one more token saved or one less billed anew."""
    stake = Stake("early", made=made, room=room, growth=250.0, **GPT_5)
    if stake.pays(saved, rebilled):
        assert stake.pays(saved + 1, rebilled)
        assert stake.pays(saved, max(0, rebilled - 1))


def test_a_fold_keeps_what_it_was_decided_on() -> None:
    """The log gives it back, in few bytes, and leaves out what there is nothing to say of."""
    fold = Fold((), "why", 20_000, 12_000, 9_000, Stake("early", 47, 3_120, 210.4, **GPT_5))
    assert decode(encode(fold)) == fold
    assert fold.saved == 8_000
    assert len(msgspec.json.encode(fold.stake)) < 90
    assert msgspec.json.encode(Stake("hand")) == b'{"kind":"hand"}'
    assert b"stake" not in encode(msgspec.structs.replace(fold, stake=None))
