"""Retention: who decides it, what each value does to a prompt, and that nothing gets below what was promised."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foveal import OverBudget, Prompt, Session, open_store, retain, rules_of
from foveal.models.counters import encoding
from foveal.project.retention_layers import Scenario, Toolkit, layers_from, rule_from
from foveal.session.options import Clock, Host, Model
from foveal.session.policy import BudgetTable, Clear, Expired, History, Policy, Shorten, Superseded
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.testing import oracles
from foveal.testing.builders import MODELS, counted_ids
from foveal.values.entry import Message, Pin, ToolCall, assistant, result, user
from foveal.values.errors import BadPolicy
from foveal.values.retention import FULL, LADDER, Retention, RetentionRule, overlay
from foveal_bench.oldest import Oldest

DIALECTS = sorted(MODELS)
TEXT = "\n".join(f"line {n} of the file, with some words on it" for n in range(400))
HEAD, TAIL = "line 0 of the file", "line 399 of the file"
SMALL = RetentionRule("summary", limit_tokens=120)


def opened(
    store: Store | None = None, *, limit: int = 200_000, dialect: str = "openai_chat", **options: Any
) -> Session:
    tools, stages = options.pop("tools", {}), options.pop("stages", None)
    rest = {"stages": stages} if stages else {}
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0), tools=tools, **rest, **options.pop("policy", {}))
    kept = MemoryStore() if store is None else store
    clock = Clock(new_id=options.pop("new_id", counted_ids()))
    return Session(
        kept,
        "s",
        model=Model(MODELS[dialect], dialect),
        policy=policy,
        host=Host(**options),
        clock=clock,
    )


def exchange(number: int, text: str = TEXT, *, tool: str = "read", **said: Any) -> Iterator[Message]:
    yield assistant("", ToolCall(f"c{number}", tool, f'{{"n": {number}}}'))
    yield result(f"c{number}", text, **said)


def asked(session: Session, *messages: Message, tools: Any = ()) -> str:
    """Everything the next request says after these."""
    session.extend(messages)
    return sent(session.prompt(tools))


def sent(prompt: Prompt) -> str:
    return "\n".join(oracles.strings(prompt.request))


def levels(session: Session) -> list[str]:
    """How each result is shown, oldest first; a covered one is not there."""
    return [line.shown for line in session.why().lines if line.kind == "tool"]


LAYERED = Policy(
    toolkits={"files": Toolkit(tools=("read", "wr*"), mode="summary", limit_tokens=1)},
    tools={"re*": RetentionRule(limit_tokens=2), "read": RetentionRule(limit_tokens=3)},
    scenarios={
        "ci": Scenario(
            toolkits={"files": Toolkit(tools=("read",), limit_tokens=4)},
            tools={"*": RetentionRule(limit_tokens=5), "read": RetentionRule(limit_tokens=6)},
        )
    },
)


@pytest.mark.parametrize(
    ("tool", "scenario", "declared", "limit", "source"),
    [
        ("grep", None, {}, None, "built in"),
        ("write", None, {}, 1, "policy, toolkit files"),
        ("reread", None, {}, 2, "policy, re*"),
        ("read", None, {}, 3, "policy, read"),
        ("write", "ci", {}, 5, "scenario ci, *"),
        ("read", "ci", {}, 6, "scenario ci, read"),
        ("read", "ci", {"read": RetentionRule(limit_tokens=7)}, 6, "scenario ci, read"),
        ("read", None, {"read": RetentionRule(limit_tokens=7)}, 3, "policy, read"),
        ("grep", None, {"grep": RetentionRule(limit_tokens=7)}, 7, "definition"),
        ("read", "ci", {"write": RetentionRule(limit_tokens=7)}, 6, "scenario ci, read"),
        ("read", None, {"*": RetentionRule(limit_tokens=7)}, 3, "policy, read"),
    ],
)
def test_a_higher_layer_overrides_what_it_names(
    tool: str, scenario: str | None, declared: dict[str, RetentionRule], limit: int | None, source: str
) -> None:
    """Built in, definition, toolkit, pattern, exact name, scenario: each wins over those before it, and is named."""
    layers = LAYERED.layers(scenario, declared)
    assert layers.of(tool).limit_tokens == limit
    assert layers.sources(tool)["limit_tokens"] == source
    assert layers_from(layers.canonical()) == layers


def test_what_a_layer_leaves_out_is_decided_below_it() -> None:
    """The toolkit's mode holds though four layers above it speak of limits."""
    layers = LAYERED.layers("ci", {"read": RetentionRule(hint="Again?")})
    assert layers.of("read") == Retention("summary", limit_tokens=6, hint="Again?")
    assert layers.sources("read")["mode"] == "policy, toolkit files"


def test_the_call_has_the_last_word() -> None:
    """What a result says of itself goes above the tool's definition."""
    session = opened(retention={"read": RetentionRule("reference")})
    text = asked(session, user("Go."), *exchange(0, retention=RetentionRule("full")), *exchange(1))
    assert text.count(TEXT) == 1
    assert levels(session) == ["full", "reference"]


def test_one_limit_takes_the_place_of_the_other() -> None:
    """A layer that counts in characters is not held to a lower layer's tokens."""
    lower = overlay(FULL, RetentionRule(limit_tokens=5))
    assert overlay(lower, RetentionRule(limit_characters=9)) == Retention(limit_characters=9)
    layers = Policy(tools={"*": RetentionRule(limit_tokens=5), "read": RetentionRule(limit_characters=9)}).layers()
    assert layers.sources("read")["limit_tokens"] == "policy, read"


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"mode": "sumary"}, "mode"),
        ({"limit_tokens": 0}, "limit_tokens"),
        ({"limit_tokens": -5}, "limit_tokens"),
        ({"limit_tokens": True}, "limit_tokens"),
        ({"limit_tokens": 1.5}, "limit_tokens"),
        ({"limit_characters": 0}, "limit_characters"),
        ({"limit_tokens": 5, "limit_characters": 5}, "limit_characters"),
        ({"head": 1.01}, "head"),
        ({"head": -0.1}, "head"),
        ({"head": float("nan")}, "head"),
        ({"hint": 5}, "hint"),
        ({"ttl_turns": 0}, "ttl_turns"),
        ({"floor": "cleared"}, "floor"),
        ({"mode": "reference", "floor": "outline"}, "floor"),
        ({"limit": 5}, "limit"),
    ],
)
def test_a_wrong_rule_names_its_key(said: dict[str, Any], key: str) -> None:
    """In a policy, in a tool list and on a function: the same value is refused by the same name."""
    with pytest.raises(BadPolicy, match=rf"the tool: .*\b{key}\b"):
        rule_from(said, "the tool")
    with pytest.raises(BadPolicy, match=rf"'read': .*\b{key}\b"):
        asked(opened(), user("Hi."), tools=[{"name": "read", "retention": said}])
    if key != "limit":
        with pytest.raises(BadPolicy, match=rf"retain: .*\b{key}\b"):
            retain(**said)


def test_retention_that_is_no_table_is_the_callers_error() -> None:
    with pytest.raises(BadPolicy, match="'read': it is a table"):
        asked(opened(), user("Hi."), tools=[{"name": "read", "retention": "summary"}])


def test_a_summary_is_within_its_tokens() -> None:
    """A long result starts shortened, and says what was left out and how to get it; a short one is shown whole."""
    session = opened(tools={"read": SMALL})
    text = asked(session, user("Go."), *exchange(0), *exchange(1, "short"))
    assert levels(session) == ["trimmed", "full"]
    assert TEXT not in text
    assert "ref " in text
    (line,) = [line for line in session.why().lines if line.shown == "trimmed"]
    assert line.tokens < 120 + 40
    assert (line.policy, line.because) == ("retention", "read keeps a summary")
    assert session.recall(line.entry) == TEXT


@pytest.mark.parametrize("characters", [300, 1_000, 6_000])
def test_a_summary_is_within_its_characters(characters: int) -> None:
    """A limit in characters gives about as many, whatever a token is."""
    session = opened(tools={"read": RetentionRule("summary", limit_characters=characters, head=0.5)})
    text = asked(session, user("Go."), *exchange(0))
    assert TEXT not in text
    (line,) = [line for line in session.why().lines if line.shown == "trimmed"]
    most = encoding("o200k_base").count(TEXT[:characters])
    assert most / 2 < line.tokens < most + 40


@pytest.mark.parametrize(("share", "has_head", "has_tail"), [(1.0, True, False), (0.0, False, True), (0.5, True, True)])
def test_the_head_share_says_which_end_is_kept(share: float, has_head: bool, has_tail: bool) -> None:
    """All of it the beginning, all of it the end, or both, verbatim."""
    session = opened(tools={"read": RetentionRule("summary", limit_tokens=200, head=share)})
    text = asked(session, user("Go."), *exchange(0))
    assert (HEAD in text, TAIL in text) == (has_head, has_tail)


def test_a_reference_has_the_tools_own_line_and_the_hint() -> None:
    """One line in place of the result: what happened, how much there is, where, and what the host says of it."""
    session = opened(tools={"read": RetentionRule("reference", hint="Prefer search.")})
    text = asked(session, user("Go."), *exchange(0, summary="read a.py, 400 lines"), *exchange(1, "ok"))
    line = next(line for line in text.split("\n") if "not shown" in line)
    assert line.startswith("[read a.py, 400 lines: ")
    assert line.endswith("] Prefer search.")
    assert levels(session) == ["reference", "full"]  # a reference would be longer than `ok`


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pinned_tool_is_verbatim_in_every_prompt(dialect: str) -> None:
    """However often the view is folded around it, its text stands there whole."""
    session = opened(dialect=dialect, limit=3_000, tools={"rules": RetentionRule("pin")})
    session.extend((user("Go."), *exchange(0, "house rule. " * 100, tool="rules")))
    for number in range(1, 15):
        session.extend(exchange(number, f"<{number}> " * 200))
        prompt = session.prompt()
        assert "house rule. " * 100 in sent(prompt)
        assert oracles.problems(prompt) == []
        assert prompt.tokens <= 3_000


def test_pins_that_cannot_fit_are_a_refusal_with_sizes() -> None:
    """Results that retention keeps are named with what they take."""
    session = opened(limit=2_000, tools={"rules": RetentionRule("pin")})
    session.extend((user("Go."), *exchange(0, "house rule. " * 2_000, tool="rules"), user("On.")))
    with pytest.raises(OverBudget, match=r"results that retention keeps \d,\d\d\d") as refused:
        session.prompt()
    assert refused.value.parts["results that retention keeps"] > 2_000


EVERY_STAGE = {
    "superseded": (Superseded(written=True),),
    "expired": (Expired(),),
    "history": (History(window="none", max_pairs=1, max_pair_tokens=60),),
    "compress": (History(window="per_pair", keep=1, mode="compress", max_pair_tokens=60),),
    "shorten": (Shorten(keep=0.0),),
    "clear": (Clear(keep=0.0),),
    "oldest": (Oldest(keep=0.0),),
    "default": None,
}
RESCUE = (Shorten(keep=0.0, last_resort=True), Clear(keep=0.0, last_resort=True), Oldest(keep=0.0, last_resort=True))


@pytest.mark.parametrize("floor", ["full", "trimmed", "outline", "reference"])
@pytest.mark.parametrize("name", sorted(EVERY_STAGE))
def test_no_stage_goes_below_a_floor(name: str, floor: Any) -> None:
    """Neither the stage itself nor any of the last resorts; results without a floor make the room."""
    stages = EVERY_STAGE[name]
    session = opened(
        limit=4_000,
        stages=(*stages, *RESCUE) if stages else None,
        tools={"keep": RetentionRule(floor=floor, ttl_turns=1)},
    )
    session.append(user("Go."))
    held = [session.extend(exchange(n, f"<{n}> " * 150, tool="keep"))[1].id for n in range(2)]
    for number in range(2, 12):
        session.extend((user(f"Now {number}."), *exchange(number, "word " * 300)))
        session.prompt()
        shown = {line.entry: line.shown for line in session.why().lines}
        for entry in held:
            assert LADDER.index(shown[entry]) >= LADDER.index(floor)  # type: ignore[arg-type]


def test_what_has_outlived_its_turns_goes_first_and_not_before_a_fold() -> None:
    """Two user messages later it still stands there, for the cache; the next fold takes it before all others."""
    session = opened(limit=6_000, tools={"peek": RetentionRule(ttl_turns=2)}, stages=(Expired(), Clear()))
    session.extend((user("Go."), *exchange(0, "old " * 800), *exchange(1, "peeked " * 800, tool="peek")))
    text = asked(session, user("one"), user("two"), user("three"))
    assert "peeked " * 800 in text
    assert levels(session) == ["full", "full"]
    session.extend((*exchange(2, "more " * 3_900), user("four")))
    fold = session.prompt().fold
    assert fold
    first = fold.items[0]
    assert (first.policy, first.level) == ("expired", "reference")
    assert first.because == "kept for 2 turns, and 4 have passed"


def test_what_is_younger_than_its_turns_has_not_expired() -> None:
    """A fold after one user message leaves it to the other stages."""
    session = opened(limit=3_000, tools={"peek": RetentionRule(ttl_turns=2)})
    session.extend((user("Go."), *exchange(0, "old " * 800), *exchange(1, "peeked " * 800, tool="peek"), user("one")))
    session.extend(exchange(2, "more " * 1_800))
    fold = session.prompt().fold
    assert fold
    assert "expired" not in {item.policy for item in fold.items}


def test_functions_declare_their_own() -> None:
    """The decorator leaves the function as it is, and `rules_of` finds what was said, by name."""

    @retain("summary", limit_tokens=120)
    def read(path: str) -> str:
        return path

    def write(path: str) -> str:
        return path

    assert read("a") == "a"
    assert rules_of([read, write]) == {"read": SMALL}
    assert TEXT not in asked(opened(retention=rules_of([read, write])), user("Go."), *exchange(0))
    operated = opened(retention=rules_of([read, write]), tools={"read": RetentionRule("full")})
    assert TEXT in asked(operated, user("Go."), *exchange(0)), "the operator's file has the last word"


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
RETENTION = {"mode": "summary", "limit_tokens": 120}
SHAPES: dict[str, dict[str, Any]] = {
    "chat": {"type": "function", "function": {"name": "read", "parameters": SCHEMA}, "retention": RETENTION},
    "inside": {"type": "function", "function": {"name": "read", "parameters": SCHEMA, "retention": RETENTION}},
    "responses": {"type": "function", "name": "read", "parameters": SCHEMA, "retention": RETENTION},
    "anthropic": {"name": "read", "input_schema": SCHEMA, "retention": RETENTION},
    "gemini": {"function_declarations": [{"name": "read", "parameters": SCHEMA, "retention": RETENTION}]},
    "a rule": {"name": "read", "input_schema": SCHEMA, "retention": SMALL},
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_retention_in_a_tool_list_holds_and_is_not_sent(dialect: str, shape: str) -> None:
    """Whatever the shape of the definition, the provider sees it without our field, and the rule is kept."""
    session, plain = opened(dialect=dialect), opened(dialect=dialect)
    for one in (session, plain):
        one.extend((user("Go."), *exchange(0), user("And?")))
    prompt = session.prompt([SHAPES[shape]])
    assert "retention" not in oracles.body(prompt).decode()
    assert TEXT not in sent(prompt)
    assert oracles.problems(prompt) == []
    without = plain.prompt([{"name": "read", "input_schema": SCHEMA}])
    assert [tool for tool in _tools(prompt) if _name(tool) == "read"] == _tools(without)


def _tools(prompt: Prompt) -> list[Any]:
    """The definitions that are sent, one by one, without marks for the cache."""
    request = prompt.request
    sent_tools = request["config"]["tools"] if prompt.setup.dialect == "gemini" else request["tools"]
    flat = [one for tool in sent_tools for one in tool.get("function_declarations", [tool])]
    return [{key: value for key, value in tool.items() if key != "cache_control"} for tool in flat]


def _name(tool: dict[str, Any]) -> str:
    return tool.get("name") or tool["function"]["name"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_retention_survives_reopening_the_store(dialect: str, tmp_path: Path) -> None:
    """Opened again from its file, with the same tools, a session gives the same bytes."""
    path, ids, tools = tmp_path / "agent.db", counted_ids(), [SHAPES["chat"]]
    store = open_store(path)
    with opened(store, dialect=dialect, new_id=ids) as session:
        session.extend((user("Go."), *exchange(0), *exchange(1, retention=RetentionRule("reference")), user("And?")))
        before = oracles.body(session.prompt(tools))
    store.close()
    store = open_store(path)
    with opened(store, dialect=dialect, new_id=ids) as session:
        seq = session.view.facts.seq
        assert oracles.body(session.prompt(tools)) == before
        assert session.view.facts.seq == seq  # nothing new had to be said
    store.close()


def test_another_policy_is_another_view_of_the_same_log(tmp_path: Path) -> None:
    """Opened with other rules it is shown by them, and with the first ones again as at first, to the byte."""
    store, ids = open_store(tmp_path / "agent.db"), counted_ids()

    def body(tools: dict[str, RetentionRule], *messages: Message) -> bytes:
        with opened(store, new_id=ids, tools=tools) as session:
            session.extend(messages)
            return oracles.body(session.prompt())

    first = body({"read": SMALL}, user("Go."), *exchange(0), *exchange(1), user("And?"))
    other = body({"read": RetentionRule("reference")})
    assert len(other) < len(first)
    assert body({"read": SMALL}) == first
    assert body({"read": RetentionRule("reference")}) == other
    store.close()


MIXED: dict[str, RetentionRule] = {
    "read": SMALL,
    "list": RetentionRule("reference", hint="Ask."),
    "rules": RetentionRule("pin"),
    "peek": RetentionRule(ttl_turns=1),
    "keep": RetentionRule(floor="outline"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_prompts_stay_valid_whatever_is_declared(dialect: str) -> None:
    """All modes in one session, folded again and again, pinned on the way: valid, within the limit, never an error."""
    session = opened(dialect=dialect, limit=5_000, tools=MIXED)
    session.append(user("Go."))
    for number in range(25):
        tool = sorted(MIXED)[number % len(MIXED)]
        text = "rule. " * 30 if tool in ("rules", "keep") else f"<{number}> some text\n" * 120
        entry = session.extend(exchange(number, text, tool=tool))[1]
        if number == 7:
            session.append(Pin(entry.id))
        if number % 4 == 0:
            session.append(user(f"Next {number}."))
        prompt = session.prompt()
        assert oracles.problems(prompt) == []
        assert prompt.tokens <= 5_000


@pytest.mark.parametrize(
    "make", [lambda: opened(tools=MIXED), lambda: opened(retention=MIXED)], ids=["policy", "tools"]
)
def test_the_same_rules_give_the_same_prompt_wherever_they_are_said(make: Callable[[], Session]) -> None:
    """Fed one by one or all at once, from a policy or from definitions: the same bytes."""
    moves = [user("Go."), *(m for n, tool in enumerate(sorted(MIXED)) for m in exchange(n, tool=tool)), user("And?")]
    whole, single = make(), opened(tools=MIXED)
    whole.extend(moves)
    for move in moves:
        single.append(move)
    assert oracles.body(whole.prompt()) == oracles.body(single.prompt())
