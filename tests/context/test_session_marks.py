"""What a session writes down of what stood beside its prompts: little, and enough to build every one of them again."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal import Policy, ToolCall, assistant, result, system, user
from foveal.context.fences import FenceKind
from foveal.context.injection import NextCall
from foveal.context.reminders import ReminderRule
from foveal.session import journal
from foveal.session.model_setup import setup_for
from foveal.session.options import Clock, Model
from foveal.session.policy import BudgetTable
from foveal.session.rebuild import prompt_at
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Draft
from foveal.stores.rows import to_entry
from foveal.testing import oracles
from foveal.testing.builders import MODELS, counted_ids
from foveal.values.codec import encode
from foveal.values.entry import Note, PromptContext
from foveal.values.prompt import Prompt

EVERY = pytest.mark.parametrize("dialect", sorted(MODELS))
RULES = FenceKind("rules", role="system", placement="after_system", lifetime="session", must_keep=True)
DOCS = FenceKind("docs", lifetime="turn")
POLICY = Policy(
    budget=BudgetTable(limit=20_000, reserve=0),
    fences=(RULES, DOCS),
    remind=True,
    reminders=(ReminderRule("clock", "fact:time", "It is {time}."), ReminderRule("rare", "always", "Rarely.", every=4)),
)


def opened(store: MemoryStore, dialect: str = "openai_chat", new_ids: str = "first") -> Session:
    ids, clock = counted_ids(new_ids), count().__next__
    return Session(
        store, "s", model=Model(MODELS[dialect], dialect), policy=POLICY, clock=Clock(new_id=ids, now_ms=clock)
    )


def begun(store: MemoryStore, dialect: str = "openai_chat") -> Session:
    session = opened(store, dialect)
    session.extend([system("SYSTEM"), user("REQUEST")])
    session.context.inject("rules", "Be exact. " * 1_000, key="")
    return session


def step(session: Session, n: int, **facts: Any) -> Prompt:
    prompt = session.prompt(next_call=NextCall(facts=facts))
    session.extend([assistant("", ToolCall(f"c{n}", "read", "{}")), result(f"c{n}", f"line {n}")])
    return prompt


def marks(store: MemoryStore) -> list[PromptContext]:
    bodies = (to_entry(row, "s").body for row in store.rows("s"))
    return [body for body in bodies if isinstance(body, PromptContext)]


def are_built_again(store: MemoryStore, dialect: str, prompts: list[Prompt]) -> None:
    optics = setup_for(Model(MODELS[dialect], dialect), POLICY)
    for prompt in prompts:
        again = prompt_at(store, "s", optics, prompt.call)
        assert oracles.body(again) == oracles.body(prompt)
        shown = [line for line in prompt.trace.lines if line.shown != "hidden"]
        assert list(again.trace.lines) == shown
        assert again.tokens == prompt.tokens


def test_what_stays_is_written_once() -> None:
    """Ten kilobytes of rules beside a clock: each later mark holds the time, and not the rules."""
    store = MemoryStore()
    session = begun(store)
    for n in range(30):
        step(session, n, time=f"12:{n:02}")
    first, *later = map(len, map(encode, marks(store)))
    assert first > 10_000
    assert len(later) == 29
    assert max(later) < 500


def test_what_does_not_change_is_not_written() -> None:
    """The same beside many calls is one mark: which reminder was said when follows from it."""
    store = MemoryStore()
    session = begun(store)
    for n in range(10):
        step(session, n, time="12:00")
    said = [[one.name for one in mark.blocks[-1].said] if mark.blocks else [] for mark in marks(store)]
    assert said == [["clock", "rare"], ["clock"], ["clock", "rare"], ["clock"], ["clock", "rare"], ["clock"]]
    assert session.view.facts.reminded == {"clock": 10, "rare": 9}


@EVERY
@pytest.mark.parametrize("every", [256, 1], ids=["from the log", "from a snapshot"])
def test_every_prompt_is_built_again(dialect: str, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte and the line: after opening again in the middle, and on the branch after a rewind."""
    monkeypatch.setattr(journal, "SNAPSHOT_EVERY", every)
    store = MemoryStore()
    session = begun(store, dialect)
    prompts = [step(session, n, time=f"12:{n:02}") for n in range(4)]
    session.close()
    session = opened(store, dialect, "second")
    session.context.inject("docs", "DOCUMENT")
    prompts += [step(session, n, time=f"12:{n:02}") for n in range(4, 7)]
    are_built_again(store, dialect, prompts)
    home = session.view.facts.head
    assert home is not None
    for n in range(7, 10):
        step(session, n, time=f"13:{n:02}")
    session.branches.rewind(home)
    session.context.inject("docs", "ANOTHER")
    prompts += [step(session, n, time=f"14:{n:02}") for n in range(7, 10)]
    are_built_again(store, dialect, prompts)
    session.close()
    again = opened(store, dialect, "third")
    prompts.append(step(again, 10, time="15:00"))
    are_built_again(store, dialect, prompts)


def test_a_rewind_takes_back_what_was_said() -> None:
    """A reminder that rests is due again where it was not said yet."""
    session = begun(MemoryStore())
    step(session, 0, time="12:00")
    home = session.view.facts.head
    assert home is not None
    for n in range(1, 6):
        step(session, n, time="12:00")
    assert session.view.facts.reminded == {"clock": 6, "rare": 5}
    session.branches.rewind(home)
    assert session.view.facts.reminded == {"clock": 1, "rare": 1}


def test_a_lost_mark_is_seen_and_mended() -> None:
    """A prompt that cannot be built again says so in its place; the next one holds all that it should."""
    store = MemoryStore()
    session = begun(store)
    for n in range(3):
        step(session, n, time=f"12:{n:02}")
    session.close()
    salvaged, lost = MemoryStore(), 0
    with_hole = salvaged.acquire("s")
    for row in store.rows("s"):
        is_mark = isinstance(to_entry(row, "s").body, PromptContext)
        lost += is_mark
        payload = encode(Note("lost")) if is_mark and lost == 2 else row.payload
        with_hole.append([Draft(row.id, row.parent, row.time_ms, row.author, payload)])
    with_hole.release()
    again = opened(salvaged, new_ids="again")
    optics = setup_for(Model(MODELS["openai_chat"], "openai_chat"), POLICY)
    whole, holed = (oracles.body(prompt_at(salvaged, "s", optics, call)).decode() for call in (1, 3))
    assert "the log has lost" in holed
    assert "Be exact." not in holed
    assert "the log has lost" not in whole
    assert "Be exact." in whole
    text = oracles.body(step(again, 3, time="12:03")).decode()
    assert "the log has lost" not in text
    assert text.count("Be exact. Be exact.")
    assert "It is 12:03." in text


@EVERY
def test_the_tail_is_one_message(dialect: str) -> None:
    """Fences and all reminders of a call in one text of the user's, which no result and no request is part of."""
    session = begun(MemoryStore(), dialect)
    session.context.inject("docs", "DOCUMENT")
    session.context.remind("The build is broken.\n- Obey.")
    prompt = session.prompt(next_call=NextCall(steps_left=3, facts={"time": "12:00"}))
    (text,) = (text for text in oracles.strings(prompt.request) if "DOCUMENT" in text)
    _, _, said = text.partition("</foveal:docs>\n\n<foveal:reminder nonce=")
    assert said.splitlines()[1:] == [
        "- The build is broken.",
        "  - Obey.",
        "- Steps left: 3. Plan so that the answer is given within them.",
        "- It is 12:00.",
        "- Rarely.",
        "</foveal:reminder>",
    ]
    assert "REQUEST" not in text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=6))
def test_the_lines_add_up_to_what_is_sent(texts: list[str]) -> None:
    """The tokens of the lines are those of the block, and no fewer than the tokens of its text; the first has the frame's."""
    session = begun(MemoryStore())
    for n, text in enumerate(texts):
        session.context.remind(text, name=f"n{n}")
    prompt = session.prompt(next_call=NextCall(facts={"time": "12:00"}))
    lines = [line for line in prompt.trace.lines if line.kind == "reminder"]
    beside = session.view.facts.context
    assert beside is not None
    block = beside.blocks[-1]
    assert sum(line.tokens for line in lines) == block.tokens
    assert (
        setup_for(Model(MODELS["openai_chat"], "openai_chat"), POLICY).counter.counter.count(block.text) <= block.tokens
    )
    assert prompt.tokens == prompt.trace.tokens
