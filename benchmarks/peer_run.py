"""One engine, one recorded session: how much CPU does it take to prepare every model call?

Run by `peers.py` as a subprocess, with the interpreter of the engine's own environment; imports nothing but that engine.
Only the engine's own work is timed: messages are converted to its types before the clock starts. Engines that keep state
between calls are given it back as their framework would; engines that look at the whole history each time get the whole
history each time.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROUNDS, PER_ROUND = 4, 10

Chat = dict[str, Any]
Step = Callable[[int], object]
"""Does something for message `i` of the session; a call is named by the assistant message that answered it."""


def _nothing(_i: int) -> None:
    return None


@dataclass(frozen=True)
class Engine:
    """How an engine is driven. Calls of a stateless one do not depend on each other, so that a sample of them will do."""

    version: str
    step: Step
    """Timed: prepares the call."""
    keep: Step = _nothing
    """Timed: takes the message into the history."""
    arrange: Step = _nothing
    """Not timed: what the framework around the engine would have at hand before the call."""
    stateless: bool = False


def main() -> None:
    name, job_path = sys.argv[1:3]
    job = json.loads(Path(job_path).read_text())
    messages: list[Chat] = job["messages"]
    calls = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    with tempfile.TemporaryDirectory() as folder:
        engine = ENGINES[name](messages, job, Path(folder))
        if engine.stateless:
            outcome = _sample(engine, calls, job["cap_s"])
        else:
            outcome = _replay(engine, calls, len(messages), job["cap_s"])
    print(json.dumps({"engine": name, "version": engine.version, "calls": len(calls), **outcome}))


def _replay(engine: Engine, calls: list[int], length: int, cap_s: float) -> dict[str, Any]:
    """Every call in order, until the cap."""
    is_call, took, spent = set(calls), list[float](), 0.0
    for i in range(length):
        if i in is_call:
            engine.arrange(i)
            took.append(_timed(engine.step, i))
            spent += took[-1]
        spent += _timed(engine.keep, i)
        if spent > cap_s:
            break
    return _outcome(took, spent)


def _sample(engine: Engine, calls: list[int], cap_s: float) -> dict[str, Any]:
    """Calls from the middle of equal stretches, in rounds that each cover the whole session, until the cap."""
    width = len(calls) / (ROUNDS * PER_ROUND)
    spread = [calls[int((k + 0.5) * width)] for k in range(ROUNDS * PER_ROUND)]
    took: list[float] = []
    engine.arrange(spread[0])
    engine.step(spread[0])  # what is imported or compiled at the first call is not charged
    for start in range(ROUNDS):
        for i in spread[start::ROUNDS]:
            engine.arrange(i)
            took.append(_timed(engine.step, i))
        if sum(took) > cap_s:
            break
    return _outcome(took, sum(took))


def _outcome(took: list[float], spent: float) -> dict[str, Any]:
    return {"measured_calls": len(took), "measured_s": spent, "longest_s": max(took), "last_s": took[-1]}


def _timed(step: Step, i: int) -> float:
    start = time.process_time()
    step(i)
    return time.process_time() - start


# Each engine is imported in its own environment only, hence inside its function.
# ruff: noqa: PLC0415


def _foveal(messages: list[Chat], job: dict[str, Any], folder: Path, *, durable: bool) -> Engine:
    from synthetic import to_message

    import foveal
    from foveal.stores.memory import MemoryStore

    bodies = [to_message(message) for message in messages]
    store = foveal.open_store(folder / "store.db") if durable else MemoryStore()
    budget = foveal.BudgetTable(limit=job["budget"], target=job["target"], reserve=0)
    # Opening the session loads the vocabulary, which happens once per process and is not timed.
    session = foveal.Session(store, "replay", model="gpt-5", policy=foveal.Policy(budget=budget))
    return Engine(
        "this checkout", step=lambda i: session.prompt(job["tools"]), keep=lambda i: session.append(bodies[i])
    )


def _langchain_trim(messages: list[Chat], job: dict[str, Any], _folder: Path) -> Engine:
    from langchain_core.messages import convert_to_messages, trim_messages

    history, budget = convert_to_messages(messages), job["budget"]
    counter = _exact_langchain_counter() if job["exact"] else "approximate"

    def step(i: int) -> object:
        return trim_messages(
            history[:i], max_tokens=budget, token_counter=counter, strategy="last", include_system=True
        )

    return Engine(f"langchain-core {version('langchain-core')}", step=step, stateless=True)


def _langchain_clear(messages: list[Chat], job: dict[str, Any], _folder: Path) -> Engine:
    from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware

    counter = _exact_langchain_counter() if job["exact"] else None
    edits = [ClearToolUsesEdit(trigger=job["budget"], keep=3)]
    middleware = ContextEditingMiddleware(edits=edits, token_counter=counter)
    desk = _LangchainDesk(messages, job)
    return Engine(
        f"langchain {version('langchain')}",
        step=lambda i: middleware.wrap_model_call(desk.request, lambda asked: asked.messages),
        arrange=desk.arrange,
        stateless=True,
    )


def _deepagents(messages: list[Chat], job: dict[str, Any], folder: Path) -> Engine:
    from deepagents.backends import FilesystemBackend
    from deepagents.middleware.summarization import SummarizationMiddleware
    from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import AIMessage

    middleware = SummarizationMiddleware(
        model=FakeListChatModel(responses=["x"]),
        summarizer=lambda _messages: "A stub stands for the summary.",
        backend=FilesystemBackend(root_dir=str(folder), virtual_mode=True),
        trigger=("tokens", job["budget"]),
        keep=("tokens", job["target"]),
        trim_tokens_to_summarize=None,
        **({"token_counter": _exact_langchain_counter()} if job["exact"] else {}),
    )
    desk, reply = _LangchainDesk(messages, job), ModelResponse(result=[AIMessage("ok")])

    def step(_i: int) -> None:
        answer = middleware.wrap_model_call(desk.request, lambda _asked: reply)
        if isinstance(answer, ExtendedModelResponse):
            desk.state.update(answer.command.update)

    return Engine(f"deepagents {version('deepagents')}", step=step, arrange=desk.arrange)


def _exact_langchain_counter() -> Callable[..., int]:
    """The tokens of messages and tools, counted with Foveal's own tokenizer, per text as Foveal counts them."""
    count = _tokenizer()

    def count_messages(messages: Any, tools: Any = None) -> int:
        tokens = count(json.dumps(tools)) if tools else 0
        for message in messages:
            tokens += 4 + count(message.content)
            if calls := getattr(message, "tool_calls", None):
                tokens += count(json.dumps(calls))
        return tokens

    return count_messages


def _tokenizer() -> Callable[[str], int]:
    from splintr import Tokenizer

    tokenizer = Tokenizer.from_pretrained("o200k_base")
    return lambda text: len(tokenizer.encode_flat(text)) // 4  # four bytes a token


class _LangchainDesk:
    """The request of the next call, as LangChain's agent would hand it over, and the state that it carries along."""

    def __init__(self, messages: list[Chat], job: dict[str, Any]) -> None:
        from langchain.agents.middleware.types import ModelRequest
        from langchain_core.language_models.fake_chat_models import FakeListChatModel
        from langchain_core.messages import convert_to_messages

        self._system, *self._history = convert_to_messages(messages)
        self._make = partial(
            ModelRequest,
            model=FakeListChatModel(responses=["x"]),
            system_message=self._system,
            tool_choice=None,
            tools=job["tools"],
            response_format=None,
            runtime=None,
        )
        self.state: dict[str, Any] = {}
        self.request: Any = None

    def arrange(self, i: int) -> None:
        shown = self._history[: i - 1]  # the system prompt is not among them
        self.request = self._make(messages=shown, state={**self.state, "messages": shown})


def _haystack(messages: list[Chat], job: dict[str, Any], _folder: Path, *, compactor: str, mode: str = "") -> Engine:
    """With `usage`, the provider reports what it counted, so that the hook counts only what came after the last reply.

    With `whole`, the host keeps the whole history and has it compacted for each call, since the hook's own state forgets.
    """
    from haystack.components.agents.state.state import State
    from haystack.hooks import compaction
    from haystack.token_counters import ApproximateTokenCounter
    from haystack.tools import Tool

    counter = _ExactHaystackCounter() if job["exact"] else ApproximateTokenCounter()
    hook = compaction.CompactionHook(
        getattr(compaction, compactor)(),
        context_window=job["budget"],
        compact_at=1.0,
        compact_to=job["target"] / job["budget"],
        token_counter=counter,
    )
    history = _haystack_messages(messages)
    tools = [Tool(function=print, **tool["function"]) for tool in job["tools"]]
    tools_tokens = counter.count([], tools)
    state = State({"context_tokens": {"type": int}, "tools": {"type": list}})
    state.data.update(messages=[], context_tokens=0, tools=tools)

    known: dict[int, tuple[Any, int]] = {}

    def size(message: Any) -> int:
        if id(message) not in known:
            known[id(message)] = message, counter.count([message]) + 1  # a provider counts framing as well
        return known[id(message)][1]

    def report_usage(_i: int) -> None:
        held = state.data["messages"]
        replies = [k for k, message in enumerate(held) if message.is_from("assistant")]
        if replies:
            state.data["context_tokens"] = sum(map(size, held[: replies[-1] + 1])) + tools_tokens

    def show_all(i: int) -> None:
        state.data["messages"] = history[:i]

    def step(_i: int) -> None:
        hook.run(state)

    def keep(i: int) -> None:
        state.data["messages"].append(history[i])

    about = f"haystack-ai {version('haystack-ai')}"
    if mode == "whole":
        return Engine(about, step=step, arrange=show_all, stateless=True)
    return Engine(about, step=step, keep=keep, arrange=report_usage if mode == "usage" else _nothing)


class _ExactHaystackCounter:
    """haystack's own text of a message, counted with Foveal's own tokenizer."""

    def __init__(self) -> None:
        from haystack.token_counters.utils import _render_message, _rendered_tools

        self._count, self._render, self._render_tools = _tokenizer(), _render_message, _rendered_tools

    def count(self, messages: list[Any], tools: Any = None) -> int:
        tokens = self._count(self._render_tools(tools)) if tools else 0
        return tokens + sum(self._count(self._render(message)) + 4 for message in messages)


def _haystack_messages(messages: list[Chat]) -> list[Any]:
    from haystack.dataclasses import ChatMessage, ToolCall

    calls: dict[str, Any] = {}
    made: list[Any] = []
    for message in messages:
        match message["role"]:
            case "system":
                made.append(ChatMessage.from_system(message["content"]))
            case "user":
                made.append(ChatMessage.from_user(message["content"]))
            case "tool":
                made.append(ChatMessage.from_tool(message["content"], origin=calls[message["tool_call_id"]]))
            case _:
                own = [
                    ToolCall(call["function"]["name"], json.loads(call["function"]["arguments"]), id=call["id"])
                    for call in message.get("tool_calls", ())
                ]
                calls.update({call.id: call for call in own})
                made.append(ChatMessage.from_assistant(message["content"] or None, tool_calls=own or None))
    return made


PRUNING, SLIDING = "ToolResultPruningCompactor", "SlidingWindowCompactor"
ENGINES: dict[str, Callable[[list[Chat], dict[str, Any], Path], Engine]] = {
    "foveal, memory": partial(_foveal, durable=False),
    "foveal, SQLite": partial(_foveal, durable=True),
    "langchain trim_messages": _langchain_trim,
    "langchain ClearToolUsesEdit": _langchain_clear,
    "deepagents SummarizationMiddleware": _deepagents,
    "haystack pruning": partial(_haystack, compactor=PRUNING),
    "haystack pruning, usage reported": partial(_haystack, compactor=PRUNING, mode="usage"),
    "haystack sliding window": partial(_haystack, compactor=SLIDING),
    "haystack sliding window, usage reported": partial(_haystack, compactor=SLIDING, mode="usage"),
    "haystack sliding window, history kept": partial(_haystack, compactor=SLIDING, mode="whole"),
}

if __name__ == "__main__":
    main()
