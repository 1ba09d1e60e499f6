"""Properties of every ledger: bounded, the same after one update or many, quotes and todos kept to the byte."""

import json
import random
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.summary.ledger import EMPTY, Ledger, LedgerStep, render, update
from foveal.testing.strategies import histories
from foveal.values.entry import Message, ToolCall, assistant, result, user

MOST_BYTES = 156_000


def numbered(messages: list[Message]) -> list[LedgerStep]:
    return [LedgerStep(f"r{at}", message, at) for at, message in enumerate(messages)]


def long_session(seed: int, turns: int) -> list[Message]:
    """Turns of everything that the ledger takes in, with names, paths and texts that hardly repeat."""
    draw, messages = random.Random(seed), list[Message]()
    for turn in range(turns):
        word, name = f"{draw.getrandbits(60):x}", f"c{turn}"
        calls = {
            "Read": {"file_path": f"/srv/{'deep/' * draw.randrange(20)}{word}.py", "offset": turn, "limit": 9},
            "Bash": {"command": f"make target_{word} ARG={'x' * draw.randrange(500)}"},
            "Edit": {"file_path": f"/srv/{word}.py", "old_string": word * 100, "new_string": "y" * 5_000},
            "TodoWrite": {
                "todos": [{"content": f"{n} {word}", "status": "pending"} for n in range(draw.randrange(40))]
            },
            "Task": {"description": f"child {word}"},
        }
        tool = draw.choice(list(calls))
        messages.append(user(f"never forget rule {turn} “{word}” {'é' * draw.randrange(300)}"))
        messages.append(assistant(f"Is {word} right?", ToolCall(name, tool, json.dumps(calls[tool]))))
        if draw.random() < 0.8:
            lines = "\n".join(f"FAILED tests/{word}.py::test_{n} - it_{n}_{word}" for n in range(draw.randrange(60)))
            messages.append(result(name, f"Exit code {turn % 2}\n{lines}"))
    return messages


def test_fifty_chained_updates_stay_bounded_and_exact() -> None:
    """Below 160 KB after each; the newest todo list exact; every quote as the user wrote it; the newest rules are there."""
    steps = numbered(long_session(seed=4, turns=1_500))
    said = {part.text.strip() for step in steps if step.message.role == "user" for part in step.message.parts}  # pyright: ignore
    cuts = [len(steps) * at // 50 for at in range(51)]
    ledger, lists = EMPTY, []
    for first, last in pairwise(cuts):
        ledger = update(ledger, steps[first:last])
        for step in steps[first:last]:
            lists += [
                json.loads(p.arguments)["todos"]
                for p in step.message.parts
                if isinstance(p, ToolCall) and p.name == "TodoWrite"
            ]
        assert len(msgspec.json.encode(ledger)) <= MOST_BYTES
        assert [one.text for one in ledger.todos] == [one["content"] for one in [row for row in lists if row][-1]]
        assert {one.text for one in ledger.quotes} <= said
    newest = [step.message.parts[0].text.strip() for step in steps if step.message.role == "user"][-8:]  # pyright: ignore
    assert set(newest) <= {one.text for one in ledger.quotes}


@settings(max_examples=40, deadline=None)
@given(histories(), st.lists(st.integers(0, 60), max_size=4))
def test_the_same_in_one_update_or_in_many(moves: list[object], cuts: list[int]) -> None:
    """Wherever the messages are cut, between a call and its result too; through JSON in between."""
    steps = numbered([move for move in moves if isinstance(move, Message)])
    ledger = EMPTY
    for first, last in pairwise([0, *sorted(cuts), len(steps)]):
        ledger = msgspec.json.decode(msgspec.json.encode(update(ledger, steps[first:last])), type=Ledger)
    assert ledger == update(EMPTY, steps) or max(cuts, default=0) > len(steps)


def test_a_long_session_is_the_same_in_one_update_or_in_many() -> None:
    """Also where every bound is passed many times."""
    steps = numbered(long_session(seed=9, turns=400))
    ledger = EMPTY
    for first in range(0, len(steps), 7):
        ledger = update(ledger, steps[first : first + 7])
    assert ledger == update(EMPTY, steps)


@settings(max_examples=40, deadline=None)
@given(histories(), st.integers(0, 400))
def test_any_history_makes_a_ledger_that_renders(moves: list[object], tokens: int) -> None:
    """Odd texts, ids and arguments included: it is JSON within its bound, and its text within the tokens."""
    ledger = update(EMPTY, numbered([move for move in moves if isinstance(move, Message)]))
    assert len(msgspec.json.encode(ledger)) <= MOST_BYTES
    assert len(render(ledger, tokens, len)) <= tokens


def test_hostile_texts_take_linear_time() -> None:
    """Megabytes of what regular expressions stumble over; the test's own time limit is the judge."""
    for piece in ("<a>", "a.", '"a": ', "a/", "'", "no ", "? ", "a=", "FAIL: ", "  ● ", "x" * 50 + " "):
        text = piece * (1_000_000 // len(piece))
        messages = [
            user(text),
            assistant(text, ToolCall("c", "bash", json.dumps({"command": text}))),
            result("c", text),
        ]
        assert len(msgspec.json.encode(update(EMPTY, numbered(messages)))) <= MOST_BYTES
