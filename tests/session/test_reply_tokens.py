"""The length of the reply: the host's word counts, and the prompt leaves room for it."""

import pytest

from foveal import NextCall
from foveal.models import catalogue
from foveal.session.policy import BudgetTable, Policy
from foveal.testing.builders import MODELS, open_session
from foveal.values.entry import assistant, system, user
from foveal.values.errors import BadInput, OverBudget

DIALECTS = sorted(MODELS)
SMALL = Policy(max_context_tokens=16_000)


def test_the_hosts_word_is_the_limit_of_anthropics_reply() -> None:
    """A client that asks for 32 000 tokens gets them at any budget; one that says nothing gets the reserve."""
    session = open_session(dialect="anthropic", policy=SMALL)
    session.append(user("Write a book."))
    assert session.prompt().request["max_tokens"] == 1_600
    assert session.prompt(next_call=NextCall(reply_tokens=32_000)).request["max_tokens"] == 32_000
    assert session.prompt().request["max_tokens"] == 1_600


@pytest.mark.parametrize("dialect", DIALECTS)
def test_prompt_and_reply_stay_within_the_window_together(dialect: str) -> None:
    """A long reply lowers what may be sent; a short one raises nothing."""
    window = catalogue.find(MODELS[dialect]).window
    session = open_session(dialect=dialect, policy=Policy())
    session.append(user("Go."))
    usual = session.prompt().setup.limit
    assert session.prompt(next_call=NextCall(reply_tokens=64)).setup.limit == usual
    assert session.prompt(next_call=NextCall(reply_tokens=window // 2)).setup.limit == window - window // 2


def test_a_long_reply_folds_a_prompt_that_would_fit_beside_a_short_one() -> None:
    """The reserve follows the host's word before the call, and not when the provider refuses it."""
    window = catalogue.find(MODELS["anthropic"]).window
    session = open_session(dialect="anthropic", policy=Policy())
    for i in range(20):
        session.append(user(f"request {i}"))
        session.append(assistant(f"answer {i} " + "word " * 4_000))
    session.append(user("And now?"))
    assert session.prompt().fold is None
    prompt = session.prompt(next_call=NextCall(reply_tokens=window - 20_000))
    assert prompt.fold is not None
    assert prompt.tokens <= 20_000


def test_a_past_prompt_is_explained_with_its_own_reply() -> None:
    """The log knows what the host said for each call."""
    session = open_session(dialect="anthropic", policy=SMALL)
    session.append(user("Go."))
    sent = session.prompt(next_call=NextCall(reply_tokens=190_000))
    session.append(assistant("Done."))
    session.append(user("On."))
    session.prompt()
    assert session.why(1) == sent.trace
    assert session.why(1).limit == 10_000


@pytest.mark.parametrize("tokens", [0, -5, 10_000_000])
def test_a_reply_that_leaves_no_prompt_is_refused_and_the_session_goes_on(tokens: int) -> None:
    """The error names both numbers; asking for less works."""
    session = open_session(dialect="anthropic", policy=SMALL)
    session.append(user("Go."))
    with pytest.raises(BadInput, match="reply_tokens is"):
        session.prompt(next_call=NextCall(reply_tokens=tokens))
    assert session.prompt().request["max_tokens"] == 1_600


def test_a_prompt_that_does_not_fit_beside_the_reply_says_so() -> None:
    """The limit is the host's doing, and the error says which number to change."""
    session = open_session(dialect="anthropic", policy=Policy(budget=BudgetTable(limit=100_000, reserve=0)))
    session.extend([system("word " * 3_000), user("Go.")])
    with pytest.raises(OverBudget, match=r"beside a reply of 199,000 tokens; ask for a shorter reply"):
        session.prompt(next_call=NextCall(reply_tokens=199_000))
