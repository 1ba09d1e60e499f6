"""The newest result is shown, at least in part, at every limit that has room for some of it."""

import json
from itertools import count

from foveal.session.options import Clock, Model
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, sends_at_most
from foveal.values.entry import Message, Text, ToolCall, ToolResult, system, user

CALL = "call_Ffgz6dU5iC5pNho3E1oFiREc_Zq9"
"""As long as those of some servers: with it, the frame of a result is larger than it is taken for."""


def hidden_at(limit: int) -> list[str]:
    """Return what a prompt under this limit hides of a result that the model has not seen."""
    ids = count(1)
    clock = Clock(new_id=lambda: f"{next(ids):026}", now_ms=lambda: 1, new_secret=lambda: b"s" * 32)
    model = Model(MODELS["anthropic"], "anthropic")
    session = Session(MemoryStore(), "s", model=model, policy=sends_at_most(limit), clock=clock)
    products = {str(n * 7919): {"price": n * 1.37, "color": "green", "available": n % 2 == 0} for n in range(40)}
    result = Message("tool", (ToolResult(CALL, (Text(json.dumps(products)),)),))
    asked = user("Which speaker is the cheapest?")
    for message in (system("rule " * 400), asked, Message("assistant", (ToolCall(CALL, "products", "{}"),)), result):
        session.append(message)
    return oracles.unseen_hidden(session.prompt(), unseen=[result])


def test_a_newest_result_that_was_cut_a_token_too_long_is_cut_again() -> None:
    """It was left out instead: at one limit in eleven."""
    assert {limit for limit in range(1_100, 1_900) if hidden_at(limit)} == set()
