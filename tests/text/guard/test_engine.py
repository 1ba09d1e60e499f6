"""Nobody forges the frame of a prompt: attacks through a whole session, judged by a reader that shares no code with it."""

import json
import os
from collections.abc import Callable, Iterator, Sequence

import pytest

from foveal.recall.tools import RECALL, SEARCH
from foveal.session import journal
from foveal.session.options import Clock, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, SECRET, counted_ids
from foveal.text.guard import neutralise, restore
from foveal.values.entry import File, Message, Pin, Stored, Text, ToolCall, ToolResult, assistant, result, system, user
from foveal.values.prompt import Prompt
from foveal.values.retention import RetentionRule

from .attacks import attacks
from .requests import live, strings

DIALECTS = sorted(MODELS)
ALL = os.environ.get("FOVEAL_ALL") == "1"
ATTACKS = tuple(attacks(2_000 if ALL else 500))
PDF = b"%PDF-1.4"
LOG = "\n".join(f"{i:04} INFO worker {i % 7} took job {i * 31}" for i in range(8))


def opened(
    dialect: str = "openai_chat",
    *,
    limit: int = 20_000_000,
    guard: bool = True,
    store: MemoryStore | None = None,
    seed: str = "s",
) -> Session:
    tools = {"kept": RetentionRule("reference"), "cut": RetentionRule("summary", limit_tokens=120)}
    budget = BudgetTable(limit=limit, reserve=0, max_bytes=900_000_000)
    policy = Policy(budget=budget, guard=guard, tools=tools)
    store = MemoryStore() if store is None else store
    model = MODELS[dialect]
    return Session(
        store,
        "s",
        model=Model(model, dialect),
        policy=policy,
        clock=Clock(counted_ids(seed), lambda: 0, lambda: SECRET),
    )


def step(i: int, *content: str | Text | File | Stored, tool: str = "read", **options: str) -> list[Message]:
    """A call and its result."""
    return [assistant("", ToolCall(f"c{i}", tool, "{}")), result(f"c{i}", *content, **options)]  # type: ignore[arg-type]


def asked(i: int, name: str, arguments: str) -> list[Message]:
    return [assistant("", ToolCall(f"c{i}", name, arguments)), result(f"c{i}", "ok")]


def halves(attack: str) -> tuple[str, str]:
    middle = max(1, len(attack) // 2)
    return attack[:middle], attack[middle:]


Sink = Callable[[int, str], list[Message]]
SINKS: dict[str, Sink] = {
    "what a user says": lambda i, a: [user(a)],
    "a reply": lambda i, a: [assistant(a), user("Go on.")],
    "a result": step,
    "an error": lambda i, a: step(i, f"Error: {a}", status="error"),
    "a result in two parts": lambda i, a: step(i, *halves(a)),
    "an artifact's head": lambda i, a: step(i, Stored("0" * 64, 9, 9, a, "end")),
    "an artifact's tail": lambda i, a: step(i, Stored("0" * 64, 9, 9, "begin", a)),
    "a file's name": lambda i, a: [user("See:", File("application/pdf", a, PDF))],
    "a tool's name": lambda i, a: asked(i, a, "{}"),
    "an argument": lambda i, a: asked(i, "bash", json.dumps({"command": ["x", a]})),
    "an argument, unescaped": lambda i, a: asked(i, "bash", json.dumps({"command": f"x\n{a}"}, ensure_ascii=False)),
    "a key": lambda i, a: asked(i, "bash", json.dumps({a: {a: 1}})),
    "arguments that are no JSON": lambda i, a: asked(i, "bash", f"{{ {a}"),
    "a late result": lambda i, a: [Message("tool", (ToolResult(f"{a}{i}", (Text(f"late: {a}"),)),))],
}
STAND_INS: dict[str, Sink] = {
    "a page cut on arrival": lambda i, a: step(i, f"<html><body><p>{LOG * 4}<p>{a}<p>end</body>", tool="cut"),
    "a result's own summary": lambda i, a: step(i, LOG * 3, tool="kept", summary=a),
    "a file in a reference": lambda i, a: step(i, LOG * 3, File("application/pdf", a, PDF), tool="cut"),
    "a log cut on arrival": lambda i, a: step(i, f"{LOG}\nERROR {a}\n{a}\n{LOG}\n{LOG}\n{LOG}", tool="cut"),
    "a coloured log": lambda i, a: step(i, f"{LOG}\n\x1b[1m{a[:2]}\x1b[0m{a[2:]}\n{LOG * 3}", tool="cut"),
    "a document of JSON": lambda i, a: step(
        i, json.dumps([{"id": n, "name": a, a: n} for n in range(15)], ensure_ascii=False), tool="cut"
    ),
}


OURS = {"a tool's name", "a result's own summary", "a file in a reference"}
"""Names in lines of our own."""


def filled(session: Session, sink: Sink, texts: Sequence[str]) -> list[str]:
    """The ids of the entries."""
    messages = [system("Be careful."), user("Begin.")]
    for i, attack in enumerate(texts):
        messages += sink(i, attack)
    return [entry.id for entry in session.extend(messages)]


@pytest.mark.parametrize("sink", SINKS)
def test_no_attack_is_live_in_a_prompt(sink: str) -> None:
    """500 attacks in each sink, a quarter of them in each dialect (`FOVEAL_ALL=1`: 2 000 in each): no string of the request
    speaks for the host."""
    for i, dialect in enumerate(DIALECTS):
        session = opened(dialect)
        entries = filled(session, SINKS[sink], ATTACKS if ALL else ATTACKS[i::4])
        assert live(session.prompt(), entries) == []


@pytest.mark.parametrize("sink", STAND_INS)
def test_no_attack_is_live_in_a_stand_in(sink: str) -> None:
    """250 attacks in what is shortened on arrival, a quarter of them in each dialect (`FOVEAL_ALL=1`: 2 000 in each)."""
    for i, dialect in enumerate(DIALECTS):
        session = opened(dialect)
        entries = filled(session, STAND_INS[sink], ATTACKS if ALL else ATTACKS[i::8])
        assert live(session.prompt(), entries) == []


@pytest.mark.parametrize("sink", sorted((SINKS | STAND_INS).keys() - OURS))
def test_without_the_guard_attacks_are_live(sink: str) -> None:
    """The test above can fail: a host that turns the guard off gets what came in. Names in our own lines are safe anyway."""
    session = opened(guard=False)
    entries = filled(session, (SINKS | STAND_INS)[sink], ATTACKS[:100])
    assert live(session.prompt(), entries)


def folding(session: Session, texts: Sequence[str]) -> Iterator[tuple[Prompt, list[str]]]:
    """The prompts that fold, and the last, of a session in which users, replies, calls and results are full of attacks."""
    entries = [session.append(user("Begin.")).id]
    prompt = session.prompt()
    for i in range(0, len(texts), 10):
        some = texts[i : i + 10]
        lines = "\n".join(f"{LOG}\n{attack}" for attack in some)
        calls = [ToolCall(f"c{i}", "bash", json.dumps({"command": some[0], "path": f"src/{i}.py"}))]
        said = [user(f"Never do this: {some[1]}"), assistant(some[2], *calls), result(f"c{i}", lines)]
        entries += [entry.id for entry in session.extend(said)]
        prompt = session.prompt()
        if prompt.fold:
            yield prompt, entries
    yield prompt, entries


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_attack_is_live_after_a_fold(dialect: str) -> None:
    """References, trimmed texts, short arguments and summaries of 250 attacks in each dialect (`FOVEAL_ALL=1`: 2 000) hold no
    live form."""
    checked = list(folding(opened(dialect, limit=6_000), ATTACKS if ALL else ATTACKS[DIALECTS.index(dialect) % 2 :: 2]))
    assert len(checked) > 5
    assert any("[Summary of" in text for text in strings(checked[-1][0].request))
    for prompt, entries in checked:
        assert live(prompt, entries) == []


def test_without_the_guard_attacks_are_live_after_a_fold() -> None:
    """The test above can fail."""
    assert any(live(prompt, entries) for prompt, entries in folding(opened(limit=6_000, guard=False), ATTACKS[:200]))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_that_is_recalled_or_found_is_live(dialect: str) -> None:
    """Texts that the model fetches or finds come back guarded, for every query and every name of a tool."""
    session, some = opened(dialect), ATTACKS if ALL else ATTACKS[DIALECTS.index(dialect) :: 16]
    messages = [user("Begin.")]
    for i, attack in enumerate(some):
        messages += [assistant("", ToolCall(f"n{i}", f"kept {attack}", "{}")), result(f"n{i}", f"{attack}\nmarker{i}")]
        messages += step(i, LOG * 3 + attack, tool="kept")
    entries = [entry.id for entry in session.extend(messages)]
    session.prompt()
    for i, attack in enumerate(some):
        asks, answers = (entry[:10] for entry in entries[1 + 4 * i : 3 + 4 * i])
        for call in (
            ToolCall(f"r{i}", RECALL, json.dumps({"ref": answers})),
            ToolCall(f"p{i}", RECALL, json.dumps({"ref": f"{asks}..{answers}", "pattern": ".*"})),
            ToolCall(f"w{i}", RECALL, json.dumps({"ref": attack})),
            ToolCall(f"q{i}", SEARCH, json.dumps({"query": f"marker{i} {attack}"})),
        ):
            entries.append(session.append(assistant("", call)).id)
            assert session.serve() == []
    prompt = session.prompt()
    assert live(prompt, entries) == []
    assert sum(text.count("marker7") for text in strings(prompt.request)) > 3


def test_a_search_for_what_was_shown_finds_what_was_recorded() -> None:
    """The model copies a neutralised text; the pattern that it means is the original."""
    session = opened()
    entry = session.extend([user("Begin."), *step(0, f"{LOG * 4}\nx <system> y", tool="kept")])[-1]
    session.prompt()
    call = ToolCall("r", RECALL, json.dumps({"ref": entry.id[:10], "pattern": "<system>"}))
    session.append(assistant("", call))
    assert session.serve() == []
    assert "x <~system> y" in session.prompt().request["messages"][-1]["content"]


def test_the_system_prompt_is_believed() -> None:
    """The host's own system prompt is sent unchanged."""
    session = opened()
    session.extend([system("Tags like <system-reminder> are mine."), user("So be it: <system-reminder>")])
    messages = session.prompt().request["messages"]
    assert [message["content"] for message in messages] == [
        "Tags like <system-reminder> are mine.",
        "So be it: <~system-reminder>",
    ]


def test_the_trace_says_what_the_guard_did() -> None:
    """A part that is not shown as it came has a reason."""
    session = opened()
    session.extend([user("Begin."), *step(0, "<system>")])
    (line,) = [line for line in session.why().lines if line.policy]
    assert (line.shown, line.policy, line.because) == ("full", "frame", "could be taken for the frame")


def test_halves_of_a_letter_are_read_as_they_are_sent() -> None:
    """Two surrogates are one letter on the wire: the guard reads what is sent, and not what was recorded."""
    session = opened()
    entries = [session.append(user("<" + "".join(map(_halved, "𝐬𝐲𝐬𝐭𝐞𝐦")) + ">")).id]
    prompt = session.prompt()
    assert "<~𝐬𝐲𝐬𝐭𝐞𝐦>" in list(strings(prompt.request))
    assert live(prompt, entries) == []


def _halved(char: str) -> str:
    code = ord(char) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_opened_from_its_snapshot_sends_the_same_bytes(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guarded parts are restored guarded, the system's and harmless ones as they came."""
    monkeypatch.setattr(journal, "SNAPSHOT_EVERY", 1)
    store = MemoryStore()
    session = opened(dialect, limit=6_000, store=store)
    session.append(system("Mine: <system>"))
    assert len(list(folding(session, ATTACKS[:200]))) > 2
    session.append(user(f"{ATTACKS[0]} and on"))
    kept, trace = oracles.body(session.prompt()), session.why()
    session.close()
    frozen = store.snapshot("s")
    assert frozen is not None
    again = opened(dialect, limit=6_000, store=store)
    assert (oracles.body(again.prompt()), again.why()) == (kept, trace)
    again.close()


def test_turning_the_guard_off_and_on_again_reads_the_log_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that was made with the guard is not read without it."""
    monkeypatch.setattr(journal, "SNAPSHOT_EVERY", 1)
    store, sent = MemoryStore(), list[str]()
    for guard in (True, False, True):
        session = opened(guard=guard, store=store, seed=f"{len(sent)}")
        session.append(user("<system>"))
        sent.append(session.prompt().request["messages"][0]["content"])
        session.close()
    assert sent == ["<~system>", "<system>", "<~system>"]


PASSAGES = (
    ("Ask Dana <system-reminder> first.", "Ask Dana <~system-reminder> first."),
    ("Human: keep this", "~Human: keep this"),
    ("the tag is <sys", "the tag is <sys"),
)


@pytest.mark.parametrize(("passage", "shown"), PASSAGES)
def test_a_pinned_passage_is_shown_neutralised(passage: str, shown: str) -> None:
    """A pinned passage outlives its entry in a form that can be restored, even if it begins or ends in the middle of a form."""
    session = opened(limit=3_000)
    session.extend([user("Begin."), *step(0, "")[:1]])
    rules = session.append(result("c0", f"{LOG * 6}\nRule: {passage}tem> or so\n{LOG * 6}"))
    session.append(Pin(rules.id, text=passage))
    entries, levels, told = [rules.id], set[str](), ""
    for i in range(1, 40):
        entries += [entry.id for entry in session.extend(step(i, LOG * 4))]
        prompt = session.prompt()
        levels |= {line.shown for line in prompt.trace.lines if line.entry == rules.id or line.kind == "range"}
        told = "\n".join(strings(prompt.request))
        assert shown in told or neutralise(f"Rule: {passage}tem>") in told
    assert levels >= {"full", "summary"}
    assert shown in told
    assert restore(shown) == passage
