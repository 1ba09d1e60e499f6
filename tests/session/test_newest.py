"""The newest is seen: the calls that wait for the model, their results, and the latest words of the user."""

import pytest

from foveal.project.atoms import open_calls, unseen_from
from foveal.session.policy import BudgetTable, Clear, Policy, Summarise
from foveal.session.session import Session
from foveal.testing import oracles
from foveal.testing.builders import READ_TOOL, open_session, sends_at_most
from foveal.values.entry import Message, ToolCall, assistant, result, system, user
from foveal.values.errors import OverBudget

LINES = [f"def handler_{n}(request): return {n * 7}" for n in range(170)]
NOTICES = [
    pytest.param(user("Tool loaded."), id="a notice"),
    pytest.param(user("<system-reminder>The todo list is empty.</system-reminder>"), id="a reminder"),
    pytest.param(system("The todo list is empty."), id="a system message"),
    pytest.param(user("Faster, please."), id="a word of the user"),
]


def filled(limit: int, *, fixed: int = 0) -> Session:
    """Return a session that has been near its limit for a while."""
    session = open_session(limit=limit)
    if fixed:
        session.append(system("rule " * fixed))
    session.append(user("Find out why login fails."))
    for n in range(12):
        session.extend(read(f"old{n}", [f"{n} {line}" for line in LINES[:60]]))
        session.prompt([READ_TOOL])
    return session


def read(call: str, lines: list[str]) -> list[Message]:
    return [assistant("", ToolCall(call, "read", "{}")), result(call, "\n".join(lines))]


def lines_shown(session: Session) -> int:
    """Return how many lines the newest result of the next prompt has."""
    messages = session.prompt([READ_TOOL]).request["messages"]
    newest = next((message["content"] for message in reversed(messages) if message["role"] == "tool"), "")
    return sum(line in newest for line in LINES)


@pytest.mark.parametrize("notice", NOTICES)
def test_a_text_after_a_result_does_not_hide_it(notice: Message) -> None:
    """Of a result that is half of the budget every line is shown, whatever a harness or the user says after it."""
    session = filled(4_600)
    session.extend(read("new", LINES))
    session.append(notice)
    assert lines_shown(session) == len(LINES)


@pytest.mark.parametrize("fixed", [1_000, 9_000, 12_000])
def test_a_large_fixed_part_does_not_hide_the_newest_result(fixed: int) -> None:
    """The target is a share of the room that the fixed part leaves: a fold need not reach for what is left to reach it."""
    session = filled(16_000, fixed=fixed)
    shown = []
    for n in range(8):
        session.extend(read(f"new{n}", LINES))
        shown.append(lines_shown(session))
    assert min(shown) > len(LINES) // 2


def test_results_that_do_not_fit_are_cut_to_the_room_there_is() -> None:
    """Twenty results of one reply, thrice the budget: each is shown in part, the small ones whole."""
    session = filled(6_000)
    calls = [ToolCall(f"p{n}", "read", "{}") for n in range(20)]
    session.append(assistant("", *calls))
    session.extend(result(f"p{n}", f"small {n}" if n % 2 else "\n".join(f"{n}: {x}" for x in LINES)) for n in range(20))
    sent = "\n".join(oracles.strings(session.prompt([READ_TOOL]).request))
    assert all(f"{n}: def handler_" in sent for n in range(0, 20, 2))
    assert all(f"small {n}" in sent for n in range(1, 20, 2))


@pytest.mark.parametrize("stage", [Clear(keep=0.0), Summarise(keep=0.0)], ids=["clear", "summarise"])
def test_no_stage_hides_the_newest_result(stage: Clear | Summarise) -> None:
    """Also under a policy that gives up everything it may."""
    session = open_session(policy=Policy(budget=BudgetTable(limit=3_000, target=200, reserve=0), stages=(stage,)))
    session.append(user("Go."))
    for n in range(4):
        session.extend(read(f"c{n}", LINES))
    assert lines_shown(session) > 0


def test_the_words_around_a_paste_stay() -> None:
    """A user's message of many times the budget is shown by its words, a part of the paste, and a reference."""
    session = open_session(limit=4_000)
    log = "\n".join(f"2026-11-15T10:00:{n % 60:02d} worker[{n}] GET /login 200 {n * 13} ms" for n in range(3_000))
    entry = session.append(user(f"The login page is slow since Monday.\n\n{log}\n\nWhich worker is the slowest?"))
    prompt = session.prompt([READ_TOOL])
    sent = "\n".join(oracles.strings(prompt.request))
    assert "The login page is slow since Monday." in sent
    assert "Which worker is the slowest?" in sent
    assert f"ref {entry.id[:10]}" in sent
    assert prompt.tokens <= 4_000
    assert next(line for line in prompt.trace.lines if line.entry == entry.id).shown == "trimmed"
    assert log in session.recall(entry.id)


def test_a_paste_that_fits_is_whole() -> None:
    """Nothing is cut before the budget asks for it."""
    session = open_session(limit=16_000)
    text = "Look:\n\n" + "\n".join(LINES)
    session.append(user(text))
    assert text in "\n".join(oracles.strings(session.prompt().request))


def test_only_what_nothing_can_shorten_is_refused() -> None:
    """The system prompt is never cut: the error names it, and the newest calls among the other parts."""
    session = open_session(limit=1_000)
    session.append(system("rule " * 1_200))
    session.append(user("Go."))
    session.extend(read("new", LINES))
    with pytest.raises(OverBudget) as refused:
        session.prompt([READ_TOOL])
    assert {"system prompt", "latest request", "newest calls and results"} <= refused.value.parts.keys()


def test_the_past_ends_with_the_last_reply() -> None:
    """Calls are open until the model has spoken again; a silent message and a notice do not close them."""
    session = open_session(policy=sends_at_most(9_000))
    session.append(user("Go."))
    session.extend(read("a", LINES[:2]))
    session.append(user("Tool loaded."))
    waiting = open_calls(session.view.atoms)
    assert waiting is not None
    assert waiting.kind == "tools"
    session.append(assistant("Done."))
    assert open_calls(session.view.atoms) is None
    assert unseen_from(session.view.atoms) == len(session.view.atoms)
