"""A recorded session as the input of every policy, and the one port through which all policies are measured.

A policy is a **runner**: for each model call of the case, in order, it yields the OpenAI chat messages that it would send.
Foveal, the baselines, the oracle and engines in other environments all come through here, so that one piece of code counts
their tokens, compares their prefixes, judges their validity and looks for the clues that the agent's next action used.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeAlias, cast

import msgspec

from foveal.analysis.measurement.grounding import Need, arguments_text, needs_of
from foveal.analysis.recordings.recording import Recording
from foveal.analysis.replay.replay import DEFAULT_MODEL, replay
from foveal.models.counters import encoding
from foveal.session.policy import BudgetTable, Policy
from foveal.values.prompt import Prompt

Chat: TypeAlias = dict[str, Any]
"""A message of OpenAI's chat format."""

MODEL = DEFAULT_MODEL
"""Its tokens are counted exactly; the same counter for every session and policy."""

MESSAGE_TOKENS = 4
PROMPT_TOKENS = 3
"""Framing of a message and the reply's opening, as OpenAI documents them."""

EVERYTHING = Policy(
    budget=BudgetTable(limit=10**9, reserve=0, max_bytes=10**12, max_images=10**6), stages=(), guard=False, recall=False
)


class Case(msgspec.Struct, frozen=True):
    """One recorded session."""

    id: str
    group: str
    """The set it belongs to."""
    recording: Recording
    tools: tuple[Chat, ...]
    fixed: int
    """Tokens that every call pays: the tools, and the reply's opening."""
    messages: tuple[Chat, ...]
    """The whole history."""
    sizes: tuple[int, ...]
    """Tokens of each message."""
    calls: tuple[int, ...]
    """How many of the messages precede each model call."""
    needs: tuple[Need, ...]
    """The earlier clues that each call's reply used."""
    raw: tuple[int, ...]
    """Tokens of each call if everything is sent."""


class Sent(msgspec.Struct, frozen=True):
    """The prompt of a policy for one call."""

    messages: Sequence[Chat] = ()
    tools: Sequence[Chat] = ()
    offered: Callable[[], Iterable[str]] = tuple
    """Originals that the prompt names by reference: one recall away."""
    refused: str = ""
    """The reason why nothing is sent."""
    cpu_s: float | None = None
    """The CPU time, where another process did the work."""
    summaries: int = 0
    """How many times a summariser was asked."""


Runner: TypeAlias = Callable[[Case, int], Iterator[Sent]]
"""Yields the prompt for each call of the case, in order, under a budget in tokens."""


def case_of(recording: Recording, group: str, common: frozenset[str]) -> Case:
    """Return the recording as a case. Clues in `common` are not counted."""
    prompts, tools = list[list[Chat]](), list[Chat]()

    def keep(_number: int, prompt: Prompt | None, refused: str) -> None:
        prompts.append(prompt.request["messages"] if prompt else prompts[-1] if prompts else [])
        # In their wire form, so that they are the same for all policies: recordings often hold their names only.
        tools[:] = prompt.request.get("tools") or () if prompt else tools

    replay(recording, model=MODEL, policy=EVERYTHING, dialect="openai_chat", on_prompt=keep)
    messages = tuple(prompts[-1]) if prompts else ()
    calls = tuple(len(prompt) for prompt in prompts)
    sizes = tuple(map(tokens_of, messages))
    sums = [0, *accumulate(sizes)]
    fixed = tools_tokens(tools) + PROMPT_TOKENS
    return Case(
        id=recording.id,
        group=group,
        recording=recording,
        tools=tuple(tools),
        fixed=fixed,
        messages=messages,
        sizes=sizes,
        calls=calls,
        needs=tuple(needs_of([step.message for step in recording.steps], common)),
        raw=tuple(fixed + sums[place] for place in calls),
    )


def tokens_of(message: Chat) -> int:
    """Return the tokens of one message: its texts, its calls as JSON, the id that it answers, and framing."""
    calls = count(msgspec.json.encode(message["tool_calls"]).decode()) if message.get("tool_calls") else 0
    return MESSAGE_TOKENS + count(content_text(message)) + calls + count(message.get("tool_call_id") or "")


def tools_tokens(tools: Sequence[Chat]) -> int:
    return count(msgspec.json.encode(tools).decode()) if tools else 0


def count(text: str) -> int:
    return encoding("o200k_base").count(text) if text else 0


def content_text(message: Chat) -> str:
    """Return the text of a message, without its calls."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in cast("list[Chat]", content))
    return content or ""


def text_of(message: Chat) -> str:
    """Return all text of a message; arguments without their JSON escapes, so that lines compare with lines."""
    texts = [content_text(message)]
    for call in message.get("tool_calls") or ():
        texts.extend((call["function"]["name"], arguments_text(call["function"]["arguments"])))
    return "\n".join(texts)
