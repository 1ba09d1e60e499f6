"""Results above 256 KB: retention holds for them as for all others, and their notes tell the truth."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from foveal.session.options import Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.large_results import ARTIFACT_BYTES, WHOLE_BYTES, keep_stream
from foveal.stores.memory import MemoryStore
from foveal.testing.builders import MODELS
from foveal.values.entry import Message, Pin, Stored, ToolCall, assistant, result, user
from foveal.values.errors import OverBudget
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule

LINES = 6_000
TEXT = "".join(f"{n:06} INFO worker {n % 7} took job {n * 31} of the queue\n" for n in range(LINES))
MIDDLE = TEXT.index(f"{LINES // 2:06} ")
FAILED = TEXT[:MIDDLE] + "003000 tests/test_pay.py::test_refund FAILED: balance is -3\n" + TEXT[MIDDLE:]
WIDE = BudgetTable(limit=900_000, reserve=0, max_bytes=50_000_000)


def asked(content: str | Stored, *, tool: str = "run", store: MemoryStore | None = None, **policy: Any) -> Session:
    session = Session(store or MemoryStore(), "s", model=Model("gpt-5"), policy=Policy(**{"budget": WIDE, **policy}))
    session.extend([user("Run it."), assistant("", ToolCall("c", tool, "{}"))])
    session.append(result("c", content))
    return session


def shown(prompt: Prompt) -> str:
    return next(wire["content"] for wire in prompt.request["messages"] if wire["role"] == "tool")


def level(prompt: Prompt) -> str:
    return next(line.shown for line in prompt.trace.lines if line.kind == "tool")


RULES: dict[str, RetentionRule] = {
    "full": RetentionRule("full"),
    "pin": RetentionRule("pin"),
    "floor": RetentionRule(floor="full"),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_is_to_be_whole_is_whole_where_it_fits(rule: str) -> None:
    """342 KB in a window of 900 000 tokens are shown to the last byte."""
    assert len(FAILED) > ARTIFACT_BYTES
    prompt = asked(FAILED, tools={"run": RULES[rule]}).prompt()
    assert (shown(prompt) == FAILED, level(prompt)) == (True, "full")


def test_it_is_whole_after_reopening(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a snapshot and from the log: the same bytes."""
    monkeypatch.setattr("foveal.session.journal.SNAPSHOT_EVERY", 1)
    store = MemoryStore()
    session = asked(FAILED, store=store)
    session.append(user("And?"))
    before = session.prompt().request
    session.close()
    assert store.snapshot("s")
    again = Session(store, "s", model=Model("gpt-5"), policy=Policy(budget=WIDE))
    assert again.prompt().request == before


@pytest.mark.parametrize("rule", ["pin", "floor"])
def test_a_pin_that_does_not_fit_is_refused_with_its_size(rule: str) -> None:
    """No prompt shows 16 KB in its place."""
    for content in (FAILED, "big"):
        store = MemoryStore()
        given = content if content != "big" else keep_stream(store, big())
        session = asked(given, store=store, budget=BudgetTable(limit=20_000, reserve=0), tools={"run": RULES[rule]})
        with pytest.raises(OverBudget) as refused:
            session.prompt()
        assert max(refused.value.parts.values()) > 80_000


def test_a_pinned_entry_is_refused_with_its_size() -> None:
    """An artifact that no window holds counts with all of its tokens once it is pinned."""
    store = MemoryStore()
    session = asked(keep_stream(store, big()), store=store)
    entry = next(item.id for atom in session.view.atoms for item in atom.items if item.role == "tool")
    session.prompt()
    session.append(Pin(entry))
    with pytest.raises(OverBudget, match="pinned entries"):
        session.prompt()


def big(trouble: bytes = b"") -> Iterator[bytes]:
    """More than any window holds: 6 MB of lines, with one in the middle."""
    line = b"src/module.py:120: note: unused variable 'value' in function 'compute'\n"
    half = line * (3_000_000 // len(line))
    yield half
    yield trouble
    yield half


def test_a_summary_reads_all_of_it() -> None:
    """A line in the middle that tells of trouble is shown, in a text of 342 KB and in one of 6 MB."""
    rules = {"run": RetentionRule("summary", limit_tokens=400)}
    assert "test_refund FAILED: balance is -3" in shown(asked(FAILED, tools=rules).prompt())
    store = MemoryStore()
    stored = keep_stream(store, big(b"tests/test_pay.py::test_refund FAILED: balance is -3\n"))
    assert stored.size_bytes > WHOLE_BYTES
    for mode in ("summary", "full"):
        rules = {"run": RetentionRule(mode, limit_tokens=400 if mode == "summary" else None)}
        prompt = asked(stored, store=store, tools=rules).prompt()
        assert "test_refund FAILED: balance is -3" in shown(prompt)
        assert level(prompt) == "trimmed"
        store = MemoryStore()
        stored = keep_stream(store, big(b"tests/test_pay.py::test_refund FAILED: balance is -3\n"))


@pytest.mark.parametrize("tokens", [200, 400, 2_000])
def test_the_note_and_the_marks_add_up(tokens: int) -> None:
    """The lines shown and those left out are all lines of the artifact."""
    store = MemoryStore()
    stored = keep_stream(store, big(b"error: here\n"))
    said = shown(asked(stored, store=store, tools={"run": RetentionRule("summary", limit_tokens=tokens)}).prompt())
    note, *body = said.split("\n")
    found = re.match(r"\[([\d,]+) of ([\d,]+) lines left out; ref ", note)
    assert found
    missing, total = (int(number.replace(",", "")) for number in found.groups())
    marks = [int(mark.replace(",", "")) for mark in re.findall(r"^\[… ([\d,]+) lines?\]$", "\n".join(body), re.M)]
    lines = [line for line in body if not line.startswith("[… ")]
    assert (total, missing, missing + len(lines)) == (stored.lines, sum(marks), stored.lines)


def test_a_text_without_lines_is_shown_by_its_ends() -> None:
    """One line of 6 MB has no lines to choose from."""
    store = MemoryStore()
    session = asked(keep_stream(store, [b"x" * 6_000_000]), store=store)
    said = shown(session.prompt())
    assert "6,000,000 " in said
    assert len(said) < 40_000


def test_a_lost_artifact_does_not_stop_the_session() -> None:
    """Head and tail are in the log; recall says that the rest is gone."""
    store = MemoryStore()
    session = asked(Stored("0" * 64, 300_000, 9, "begin\n", "\nend"), store=store)
    assert "begin" in shown(session.prompt())


def test_lines_of_trouble_are_kept_by_shape_and_by_recency() -> None:
    """A thousand alike are one of a kind and the last few; numbers of lines are right across chunks of any size."""
    data = b"".join(b"%d error: number %d\n" % (n, n) for n in range(1_000)) + b"quiet\n" * 50 + b"panic: out of it\n"
    for size in (len(data), 1_000):
        stored = keep_stream(MemoryStore(), (data[at : at + size] for at in range(0, len(data), size)))
        numbers = [line.number for line in stored.between]
        assert numbers == sorted(set(numbers))
        assert len(numbers) <= 64
        assert (stored.between[0].number, stored.between[-1].number) == (0, 1_050)
        assert stored.between[-1].text == "panic: out of it"


@pytest.mark.parametrize("dialect", sorted(MODELS))
def test_a_large_result_is_valid_in_every_dialect(dialect: str) -> None:
    """A tool message, whole, that the provider's rules take."""
    session = Session(MemoryStore(), "s", model=Model(MODELS[dialect], dialect), policy=Policy(budget=WIDE))
    messages: list[Message] = [user("Go."), assistant("", ToolCall("c", "run", "{}")), result("c", FAILED)]
    session.extend(messages)
    assert "test_refund FAILED" in str(session.prompt().request)
