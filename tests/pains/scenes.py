"""Sessions that the pains happen in: how they are opened, filled with work and looked at."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec

from foveal.session.options import Clock, Host, Model
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.summary.state import Summary, decode_summary
from foveal.testing import oracles
from foveal.testing.builders import MODELS, counted_ids
from foveal.values.entry import ToolCall, assistant, result, user
from foveal.values.errors import InvalidPrompt, OverBudget
from foveal.values.events import Event
from foveal.values.prompt import Prompt

DIALECTS = sorted(MODELS)

PROSE = """## Goal
The nightly import has to become fast.
## Constraints
none
## State
The loader was read and measured; parsing dates takes most of the time.
## Decisions
Dates are parsed once, because they repeat.
## Next
Write the change and run the tests again."""
"""What an honest summariser writes."""


class Watcher(list[Event]):
    """Keeps the events of a session."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]


def opened(
    limit: int | None = None,
    *,
    dialect: str = "openai_chat",
    model: str | None = None,
    store: Store | None = None,
    name: str = "pain",
    compact: Compact | None = None,
    **options: Any,
) -> Session:
    """A session that sends at most `limit`; under what the model takes, if no limit is given."""
    budget = BudgetTable() if limit is None else BudgetTable(limit=limit, reserve=0)
    new_id = options.pop("new_id", None) or counted_ids(name)
    clock = Clock(new_id, options.pop("clock_ms", None) or count().__next__)
    return Session(
        MemoryStore() if store is None else store,
        name,
        model=Model(model or MODELS[dialect], dialect),
        policy=Policy(budget=budget, compact=compact or Compact()),
        host=Host(**options),
        clock=clock,
    )


def call(call_id: str, tool: str = "read", /, **arguments: Any) -> ToolCall:
    return ToolCall(call_id, tool, msgspec.json.encode(arguments).decode())


def does(session: Session, call_id: str, tool: str, arguments: dict[str, Any], answer: str) -> None:
    """One tool call and its result."""
    session.append(assistant("", call(call_id, tool, **arguments)))
    session.append(result(call_id, answer))


def text_of(number: int, lines: int) -> str:
    """A file that is like no other: some 27 tokens a line, and few names, because names are what a fold takes time for."""
    return "\n".join(
        f"row {line} of batch {number}: the total was {number * 7919 + line * 31}, the rest {line * 17}, and that is what "
        "one would expect of such a day"
        for line in range(lines)
    )


def works(session: Session, rounds: int, *, lines: int = 30, start: int = 0, tools: Sequence[Any] = ()) -> list[Prompt]:
    """So many rounds of reading files, with the prompt of each."""
    prompts: list[Prompt] = []
    for number in range(start, start + rounds):
        does(session, f"r{number}", "read", {"path": f"lib/part{number}.py"}, text_of(number, lines))
        prompts.append(asked(session, tools))
    return prompts


def filled(session: Session, rounds: int, *, lines: int = 30) -> None:
    """The same without asking for prompts in between."""
    for number in range(rounds):
        does(session, f"r{number}", "read", {"path": f"lib/part{number}.py"}, text_of(number, lines))


def asked(session: Session, tools: Sequence[Any] = ()) -> Prompt:
    """The next prompt, which the provider would take."""
    try:
        prompt = session.prompt(tools)
    except InvalidPrompt as error:
        raise AssertionError(f"the provider would refuse it: {error}") from None
    assert oracles.problems(prompt) == []
    return prompt


def refused(session: Session, tools: Sequence[Any] = ()) -> OverBudget | None:
    try:
        session.prompt(tools)
    except OverBudget as error:
        return error
    return None


def said(prompt: Prompt) -> str:
    """All texts of the request."""
    return "\n".join(oracles.strings(prompt.request))


def summary_text(prompt: Prompt) -> str:
    """What stands for what is covered."""
    return "\n".join(atom.gap.text for atom in prompt.atoms if atom.gap)


def section(prompt: Prompt, title: str) -> str:
    """One section of the ledger, as the prompt shows it."""
    _, found, rest = summary_text(prompt).partition(f"## {title}\n")
    return rest.partition("\n## ")[0].partition("\n\n")[0] if found else ""


def known(session: Session) -> Summary:
    """What the newest summary is made from."""
    return decode_summary(session.view.facts.summary.state)


def folds(prompts: Sequence[Prompt]) -> int:
    return sum(prompt.fold is not None for prompt in prompts)


def begun(limit: int | None = None, request: str = "Make the nightly import fast.", **options: Any) -> Session:
    """A session with its first request."""
    session = opened(limit, **options)
    session.append(user(request))
    return session
