"""Where a view may be cut: each rule by itself, and all of them together."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveal.fit.cuts import after_tokens, before_messages, before_open_calls, before_tokens, before_turns, legal_cuts
from foveal.project.view import View
from foveal.testing.builders import Asks, Move, Player, open_session
from foveal.testing.strategies import histories
from foveal.values.entry import Message, Pin, ToolCall, assistant, result, system, user

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much)


def seen(*bodies: Message | Pin) -> View:
    session = open_session()
    session.extend(bodies)
    return session.view


def pair(name: str, text: str = "found") -> tuple[Message, Message]:
    return assistant("", ToolCall(name, "read", "{}")), result(name, text)


def cuts(view: View, *, tokens: int | None = None, turns: int = 0, messages: int = 0, least: int = -1) -> list[int]:
    """The legal cuts, earliest first; by default no rule is strict."""
    return sorted(legal_cuts(view, tokens=tokens, turns=turns, messages=messages, least=least))


TALK = (system("Be brief."), user("one"), *pair("c1"), assistant("done"), user("two"), *pair("c2"), *pair("c3"))
"""Seven atoms: 0 system, 1 user, 2 c1, 3 assistant, 4 user, 5 c2, 6 c3."""


def test_a_call_and_its_results_are_one_place() -> None:
    """No rule is needed for it: ten messages make seven atoms, and a cut is between atoms."""
    view = seen(*TALK)
    assert [len(atom.items) for atom in view.atoms] == [1, 1, 2, 1, 1, 2, 2]
    assert cuts(view) == list(range(8))


def test_the_calls_of_one_reply_are_one_place() -> None:
    """A batch of calls stands or falls with all its results."""
    calls = [ToolCall(f"c{i}", "read", "{}") for i in range(3)]
    view = seen(user("go"), assistant("", *calls), *(result(call.id, "found") for call in calls))
    assert cuts(view) == [0, 1, 2]


def test_nothing_is_covered_from_a_waiting_call_on() -> None:
    """The call whose result may still come stays, and so does everything after it."""
    assert before_open_calls(seen(*TALK)) == 7
    assert before_open_calls(seen(*TALK, assistant("", ToolCall("c4", "read", "{}")))) == 7
    assert before_open_calls(seen(*TALK, assistant("", ToolCall("c4", "read", "{}")), user("wait"))) == 7


def test_a_call_that_nobody_will_answer_holds_nothing_up() -> None:
    """Once the model has gone on, an open call is as good as answered."""
    view = seen(*TALK, assistant("", ToolCall("c4", "read", "{}")), user("never mind"), assistant("ok"))
    assert before_open_calls(view) == len(view.atoms)


def test_half_a_batch_still_waits() -> None:
    """One answer of two: the reply stays whole."""
    calls = [ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")]
    assert before_open_calls(seen(user("go"), assistant("", *calls), result("a", "found"))) == 1


@pytest.mark.parametrize(("spare", "kept"), [(0, 2), (-1, 1), (1, 2)])
def test_the_newest_tokens_stay(spare: int, kept: int) -> None:
    """As many of the newest atoms as fit into the number, none of them in part."""
    view = seen(*TALK)
    two = sum(atom.size.tokens for atom in view.atoms[-2:])
    assert before_tokens(view, two + spare) == len(view.atoms) - kept


def test_the_very_newest_stays_however_large_it_is() -> None:
    """The model has not seen it yet."""
    view = seen(user("go"), *pair("c1"), *pair("c2", "word " * 5_000))
    assert before_tokens(view, 0) == before_tokens(view, 10) == 2


@pytest.mark.parametrize(("messages", "cut"), [(0, 7), (1, 6), (2, 6), (3, 5), (5, 4), (10, 0), (99, 0)])
def test_the_newest_messages_stay(messages: int, cut: int) -> None:
    """Counted as messages; an atom of which one must stay, stays whole."""
    assert before_messages(seen(*TALK), messages) == cut


@pytest.mark.parametrize(("turns", "cut"), [(0, 7), (1, 4), (2, 1), (3, 0)])
def test_the_newest_turns_stay_from_the_users_word_on(turns: int, cut: int) -> None:
    """A turn begins where the user speaks; fewer turns than asked for means that nothing is covered."""
    assert before_turns(seen(*TALK), turns) == cut


def test_a_cut_that_saves_nothing_is_none() -> None:
    """What is covered must be more than the summary will take; system prompt and pins do not count, since they stay."""
    view = seen(*TALK)
    first = sum(atom.size.tokens for atom in view.atoms[1:4])
    assert cuts(view, least=first - 1) == [0, 4, 5, 6, 7]
    assert cuts(view, least=first) == [0, 5, 6, 7]
    assert cuts(view, least=10**6) == [0]


def test_no_cut_covers_more_than_all() -> None:
    """A summary that is as large as everything that it covers saves nothing at any place of the view."""
    view = seen(user("go"), *pair("c1"))
    whole = sum(atom.size.tokens for atom in view.atoms)
    assert after_tokens(view, whole - 1) == len(view.atoms)
    assert after_tokens(view, whole) == after_tokens(view, 10**6) == len(view.atoms) + 1


def test_what_is_pinned_is_not_worth_covering() -> None:
    """A pin in the range is not counted as saved."""
    session = open_session()
    entries = session.extend(TALK)
    before = after_tokens(session.view, 20)
    session.append(Pin(entries[2].id))
    assert after_tokens(session.view, 20) > before


def test_a_legal_cut_is_one_that_all_rules_allow() -> None:
    """The intersection, earliest first; to cover nothing is always legal."""
    view = seen(*TALK)
    assert cuts(view, messages=3, turns=1) == [0, 1, 2, 3, 4]
    assert cuts(view, messages=99, least=1) == [0]


def test_an_empty_view_has_one_cut() -> None:
    """There is nothing to cover and no rule that minds."""
    assert cuts(seen(), tokens=5, messages=1, turns=1, least=1) == [0]


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(moves=histories(size=10), tokens=st.integers(0, 400), messages=st.integers(0, 8), turns=st.integers(0, 4))
def test_whatever_happened_cuts_are_places_of_the_view(
    moves: list[Move], tokens: int, messages: int, turns: int
) -> None:
    """Each rule allows 0 and no place outside; a stricter number never allows more."""
    view = Player().play(move for move in moves if not isinstance(move, Asks)).session.view
    whole = set(range(len(view.atoms) + 1))
    given = {"tokens": tokens, "messages": messages, "turns": turns, "least": tokens}
    for name, more in {"tokens": 50, "messages": 1, "turns": 1, "least": 50}.items():
        allowed, stricter = (set(cuts(view, **{name: number})) for number in (given[name], given[name] + more))
        assert {0} <= stricter <= allowed <= whole
    assert 0 <= before_open_calls(view) <= len(view.atoms)
