"""What stands beside the conversation, through the providers' own SDKs."""

from typing import Any

import pytest

from foveal import Policy, result, system, user
from foveal.context.fences import PLACEMENTS, FenceKind
from foveal.context.injection import NextCall
from foveal.context.reminders import ReminderRule as Reminder
from foveal.session.session import Session
from foveal.stores import Store
from foveal.testing.oracles import strings
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.replies import Call, Turn

from .lines import Line, on_the_wire
from .test_cache import blocks, marks
from .test_loop import TOOLS, listing

KINDS = tuple(
    FenceKind(
        place.replace("_", "-"),
        placement=place,
        lifetime="session" if place == "after_system" else "call",
        role="system" if place == "after_system" else "user",
    )
    for place in PLACEMENTS
)
OURS = FenceKind("ours", role="system", lifetime="call")
CLOCK = Reminder("clock", "fact:time", "It is {time}.")


def policy(*kinds: FenceKind, limit: int = 9_000) -> Policy:
    return Policy(max_context_tokens=limit, fences=kinds, remind=True, reminders=(CLOCK,))


def send(provider: ScriptedProvider, line: Line, session: Session, n: int) -> Any:
    """One call, as `Line.send` makes it, with what the host knows of it."""
    prompt = session.prompt(TOOLS, next_call=NextCall(steps_left=9 - n, facts={"time": f"12:0{n}"}))
    provider.counted = prompt.tokens
    reply = line.ask(**(prompt.request | line.thinks))
    assert provider.last.arguments == on_the_wire(prompt.request) | line.thinks
    session.append(reply)
    return prompt


@pytest.mark.parametrize("line", ["openai_chat", "openai_responses", "anthropic", "gemini"], indirect=True)
def test_every_placement_is_accepted(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """A loop with a fence in every place, of both roles, and reminders with every call: no request is refused."""
    session = line.session(store, policy=policy(*KINDS, OURS))
    session.append(system("You repair programs."))
    session.append(user("Find the bug."))
    for n in range(7):
        provider.script(Turn(f"Step {n}.", (Call(f"a{n}"), Call(f"b{n}")), thinking=f"thought {n}"))
        for kind in (*KINDS, OURS):
            session.context.inject(kind.name, f"{kind.name} of call {n}", key="")
        prompt = send(provider, line, session, n)
        said = "\n".join(strings(provider.last.arguments))
        assert all(f"{kind.name} of call {n}" in said for kind in (*KINDS, OURS))
        assert f"It is 12:0{n}." in said
        assert prompt.tokens <= session.why().limit
        for call in session.serve():
            session.append(result(call.id, listing(f"{call.id}.py", 40)))
        if n == 3:
            session.append(user("Faster."))
    assert len(provider.arguments) == 7


@pytest.mark.parametrize("line", ["anthropic"], indirect=True)
def test_what_changes_with_every_call_is_behind_all_that_is_cached(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """As far as its last breakpoint, each request is a beginning of the next."""
    session = line.session(store, policy=policy(KINDS[-1], limit=60_000))
    session.append(system("You repair programs."))
    session.append(user("Find the bug."))
    for n in range(6):
        provider.script(Turn(f"Step {n}.", (Call(f"a{n}"),), thinking=f"thought {n}"))
        session.context.inject("tail", f"news {n}")
        send(provider, line, session, n)
        session.append(result(f"a{n}", listing(f"a{n}.py", 20)))
    for before, after in zip(provider.arguments, provider.arguments[1:], strict=False):
        cached = blocks(before, upto=marks(before)[-1])
        assert blocks(after)[: len(cached)] == cached
        assert not any("foveal:" in block for block in cached)
        assert any("foveal:tail" in block for block in blocks(before)[len(cached) :])
        assert len(marks(after)) <= 4
