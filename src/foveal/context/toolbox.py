"""The toolbox: a choice of the tools that a prompt offers, out of more than it can hold. Pure.

A provider puts the tools before everything else, so a change anywhere in the list makes the whole prompt be billed again. Hence
one order, by name, and few changes:

- the core is always offered; so are the enabled tools, all of them or, if they are too large together, none: a list cut to
  size would change with every tool that is added;
- all other tools are behind a search tool, whose presence depends on the box alone, never on the conversation;
- tools that a search found stay for the session, and one search brings several tools: one change, not one per tool;
- mentioned tools are offered for as long as the caller passes them on: for the turn, or, which is cheaper in a long
  conversation, for the session.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import log
from typing import Any

import msgspec

from foveal.context.mentions import KnownNames, Mentioned
from foveal.context.source import ContextSource
from foveal.context.tool_retention import split_retention
from foveal.dialects.port import ToolSpec
from foveal.dialects.tools import chat_form, read_tools, tools_json
from foveal.project.view import View
from foveal.recall.search.words import indexed
from foveal.values.entry import Message, Text, ToolCall, ToolResult, result
from foveal.values.errors import BadInput, OverBudget
from foveal.values.retention import RetentionRule

SEARCH = "foveal_tools"
MOST_FOUND = 20
"""Tools in one answer: a longer list is a catalogue and not an answer."""
MOST_QUERY = 1_000
TOOLS_SHARE = 0.25
"""Share of the token limit that the tools of a toolbox may take before the rest is left to the search tool."""
_SHOWN_CHARACTERS = 200
_NAME_WEIGHT = 3
"""A word in a tool's name tells more than one in its description."""
_K1, _B = 1.2, 0.75  # the usual constants of BM25

SEARCH_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": SEARCH,
        "description": "Find more tools by what they do. The tools that are found can be called from the next step on.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "a few words, or the name of a tool"},
                "limit": {"type": "integer", "description": f"1 to {MOST_FOUND}, 5 if left out"},
            },
            "required": ["query"],
        },
    },
}

_WORD = re.compile(r"[^\W_]+")
_ANSWERED = re.compile(r"^- (\S{1,200}?)(?:: |$)", re.MULTILINE)


class Toolbox(msgspec.Struct, frozen=True):
    """Three tiers of tools, and the retention that their definitions declare. `toolbox` makes one."""

    core: tuple[ToolSpec, ...] = ()
    enabled: tuple[ToolSpec, ...] = ()
    on_demand: tuple[ToolSpec, ...] = ()
    rules: dict[str, RetentionRule] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, which a user can mention."""
        return frozenset(spec.name for spec in (*self.core, *self.enabled, *self.on_demand))

    def source(self, count: Callable[[str], int], allowed: frozenset[str] | None = None) -> "ToolboxSource":
        """Return the state of this toolbox for one session; a child session is offered the tools that are `allowed`."""
        return ToolboxSource(self, count, allowed)


class _Asked(msgspec.Struct, frozen=True):
    query: str
    limit: int = 5


def toolbox(
    core: Iterable[Mapping[str, Any]] = (),
    enabled: Iterable[Mapping[str, Any]] = (),
    on_demand: Iterable[Mapping[str, Any]] = (),
) -> Toolbox:
    """Return a box of tools as hosts define them, in any provider's format. A name can be in one tier only."""
    plain, rules = zip(*(split_retention(list(tier)) for tier in (core, enabled, on_demand)), strict=True)
    tiers = [read_tools(tier) for tier in plain]
    specs = [spec for tier in tiers for spec in tier]
    twice = sorted(name for name, times in Counter(spec.name for spec in specs).items() if times > 1)
    if twice:
        raise BadInput(f"the tool {twice[0]!r} is in more than one tier ({len(twice)} such); leave it in one of them")
    if any(spec.name == SEARCH for spec in specs):
        raise BadInput(f"a tool is named {SEARCH!r}, which is the name of the tool that finds tools; rename yours")
    return Toolbox(*tiers, rules={name: rule for tier in rules for name, rule in tier.items()})


def visible_tools(
    box: Toolbox,
    *,
    mentioned: Collection[str] = (),
    found: Sequence[str] = (),
    tokens: int,
    count: Callable[[str], int],
) -> tuple[dict[str, Any], ...]:
    """Return the tools of the next prompt, by name, in the form that `Session.prompt` takes, in at most this many tokens.

    `found` are the names that searches gave, oldest first; if they are too large, the newest are kept. Names that are not in the
    box are left out: a tool that was removed cannot be offered. `OverBudget` if core and mentioned do not fit.
    """
    search_tool = read_tools((SEARCH_TOOL,))
    usual = (*box.core, *box.enabled, *(search_tool if box.on_demand else ()))
    sizes = {spec.name: count(tools_json((spec,))) for spec in usual}
    if sum(sizes.values()) > tokens:
        usual = (*box.core, *search_tool)
    names = {spec.name for spec in usual}
    behind = {spec.name: spec for spec in (*box.enabled, *box.on_demand) if spec.name not in names}
    named = [behind.pop(name) for name in sorted(set(mentioned)) if name in behind]
    parts = {
        "core tools": sum(sizes.get(spec.name) or count(tools_json((spec,))) for spec in usual),
        "mentioned tools": sum(count(tools_json((spec,))) for spec in named),
    }
    left = tokens - sum(parts.values())
    if left < 0:
        raise OverBudget(tokens, parts, advice="Raise the tokens for tools, or move tools from the core to on demand.")
    chosen = [*usual, *named]
    for name in dict.fromkeys(reversed(found)):
        if name in behind and (size := count(tools_json((behind[name],)))) <= left:
            left -= size
            chosen.append(behind[name])
    chosen.sort(key=lambda spec: spec.name)
    return tuple(
        chat_form(spec) | ({"retention": rule} if (rule := box.rules.get(spec.name)) else {}) for spec in chosen
    )


def answer(call: ToolCall, box: Toolbox) -> str:
    """Return the result of the search tool; `BadInput`, with a text for the model, if the arguments of the call are invalid."""
    try:
        asked = msgspec.json.decode(call.arguments, type=_Asked)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the arguments are not understood: {error}; pass a query such as 'read a file'") from None
    if not asked.query.strip():
        raise BadInput("the query is empty; say in a few words what the tool should do")
    hits = search(box, asked.query, limit=min(max(asked.limit, 1), MOST_FOUND))
    if not hits:
        return f"[none of {len(box.enabled) + len(box.on_demand)} tools matches; try other words]"
    lines = (f"- {spec.name}: {_one_line(spec.description)}".removesuffix(": ") for spec in hits)
    return "\n".join(["[these can be called from the next step on]", *lines])


def names_in_answer(text: str) -> tuple[str, ...]:
    """Return the names in an answer of the search tool: the log says which tools were found, whatever the box holds now."""
    return tuple(_ANSWERED.findall(text))


def search(box: Toolbox, query: str, *, limit: int = 5) -> tuple[ToolSpec, ...]:
    """Return the tools beyond the core that match a query, best first (BM25); a tool of exactly this name comes first."""
    specs = sorted((*box.enabled, *box.on_demand), key=lambda spec: spec.name)
    texts = [Counter({word: n * _NAME_WEIGHT for word, n in _words(spec.name).items()}) for spec in specs]
    for text, spec in zip(texts, specs, strict=True):
        text.update(_words(spec.description))
    terms = _words(query[:MOST_QUERY])
    holders = {term: sum(term in text for text in texts) for term in terms}
    usual = sum(text.total() for text in texts) / len(texts) if texts else 0.0

    def score(text: Counter[str]) -> float:
        length = _K1 * (1 - _B + _B * text.total() / usual) if usual else _K1
        return sum(
            log(1 + (len(texts) - holders[term] + 0.5) / (holders[term] + 0.5))
            * text[term]
            * (_K1 + 1)
            / (text[term] + length)
            for term in terms
        )

    exact = query.strip().casefold()
    ranked = [
        (spec.name.casefold() != exact, -round(score(text), 9), spec.name, spec)
        for spec, text in zip(specs, texts, strict=True)
        if spec.name.casefold() == exact or any(term in text for term in terms)
    ]
    return tuple(spec for *_, spec in sorted(ranked, key=lambda row: row[:3])[:limit])


def _words(text: str) -> Counter[str]:
    return Counter(_stem(word.casefold()) for part in indexed(text) for word in _WORD.findall(part))


def _stem(word: str) -> str:
    """Return the word without the commonest English endings, for queries and descriptions alike."""
    for ending in ("s", "ing", "ed", "e"):
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
    return word


def _one_line(text: str) -> str:
    """Return a description on one line: it is a third party's text, and must not add a line to the answer."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _SHOWN_CHARACTERS]).split())
    return plain if len(plain) <= _SHOWN_CHARACTERS else plain[: _SHOWN_CHARACTERS - 1] + "…"


class ToolboxSource(ContextSource):
    """A toolbox in one session: the tools that its search has found so far."""

    def __init__(self, box: Toolbox, count: Callable[[str], int], allowed: frozenset[str] | None) -> None:
        self._box, self._count, self._allowed = box, count, allowed
        self._found: tuple[str, ...] = ()
        self._searches: set[str] = set()
        """Ids of calls to the search tool."""

    def follow(self, view: View, mentioned: Mentioned) -> None:
        self._found = ()
        for atom in view.atoms:
            for item in atom.items:
                self.observe(Message(item.role, tuple(one.part for one in item.shown if one.part is not None)))
        if view.facts.setup:
            findable = {spec.name for spec in (*self._box.enabled, *self._box.on_demand)}.difference(mentioned.tools)
            offered = msgspec.json.decode(view.facts.setup.tools, type=list[dict[str, Any]])
            names = (tool.get("function", tool).get("name") for tool in offered)
            self._found = tuple(dict.fromkeys((*(name for name in names if name in findable), *self._found)))

    def observe(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolCall) and part.name == SEARCH:
                self._searches.add(part.id)
            elif isinstance(part, ToolResult) and part.call in self._searches:
                text = "\n".join(item.text for item in part.content if isinstance(item, Text))
                self._found = tuple(dict.fromkeys((*self._found, *names_in_answer(text))))

    @property
    def names(self) -> KnownNames:
        return KnownNames(tools=self._box.names if self._allowed is None else self._box.names & self._allowed)

    def tools(self, limit: int, mentioned: Mentioned) -> Sequence[Mapping[str, Any]]:
        share = int(limit * TOOLS_SHARE)
        tools = visible_tools(self._box, mentioned=mentioned.tools, found=self._found, tokens=share, count=self._count)
        # A child is offered the tools that are allowed, and the tool that searches this box.
        may_offer = None if self._allowed is None else self._allowed | {SEARCH}
        return [tool for tool in tools if may_offer is None or tool["function"]["name"] in may_offer]

    def answer(self, call: ToolCall) -> Message | None:
        return result(call.id, answer(call, self._box)) if call.name == SEARCH else None
