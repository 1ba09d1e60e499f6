"""pydantic-ai-harness: clearing tool results, or its tiers one after the other until the target is met."""

import asyncio
from collections.abc import Iterable
from typing import Any

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    DeduplicateFileReads,
    SummarizingCompaction,
    TieredCompaction,
    compact_now,
)
from pydantic_ai_harness.compaction._shared import estimate_context_tokens

from engines.port import KEPT_RESULTS, Chat, Engine, Job, Shown, content_text, count


class PydanticAI(Engine):
    """Replies know their place by their id, results by the call that they answer, words by themselves."""

    def __init__(self, job: Job, *, tiered: bool) -> None:
        super().__init__(job)
        self.stub = FunctionModel(lambda _messages, _info: ModelResponse(parts=[TextPart(job.summary())]))
        clear = ClearToolResults(max_tokens=job.budget, keep_pairs=KEPT_RESULTS, tokenizer=framed)
        # A tier that summarises alone would never be reached: clearing is tried first, as its manual says.
        tiers = [
            DeduplicateFileReads(file_key=_file_read, tokenizer=framed),
            clear,
            SummarizingCompaction(model=self.stub, max_messages=1, keep_messages=20, tokenizer=framed),
        ]
        self.strategy = TieredCompaction(tiers=tiers, target_tokens=job.budget, tokenizer=framed) if tiered else clear
        self.tiered = tiered
        self.held: list[Any] = []
        self.known = 0
        self._words = {(one["role"], content_text(one)): i for i, one in enumerate(job.messages)}
        self._results = {one["tool_call_id"]: i for i, one in enumerate(job.messages) if one["role"] == "tool"}

    def arrange(self, place: int) -> None:
        self.held = [*self.held, *self._native(range(self.known, place))]
        self.known = place

    def step(self, place: int) -> None:
        if self.tiered or estimate_context_tokens(self.held, framed) > self.job.budget:
            self.held = list(asyncio.run(compact_now(self.strategy, self.held, model=self.stub, tokenizer=framed)))

    def _native(self, places: Iterable[int]) -> Iterable[Any]:
        """Neighbouring messages of the host are one request."""
        parts: list[Any] = []
        for place in places:
            message = self.job.messages[place]
            text = content_text(message)
            match message["role"]:
                case "system":
                    parts.append(SystemPromptPart(text))
                case "user":
                    parts.append(UserPromptPart(text))
                case "tool":
                    name = self._names.get(message["tool_call_id"], "tool")
                    parts.append(ToolReturnPart(name, text, message["tool_call_id"]))
                case _:
                    if parts:
                        yield ModelRequest(parts=parts)
                    parts = []
                    calls = [
                        ToolCallPart(call["function"]["name"], call["function"]["arguments"], call["id"])
                        for call in message.get("tool_calls") or ()
                    ]
                    said = [TextPart(text)] * bool(text)
                    yield ModelResponse(parts=[*said, *calls], provider_response_id=str(place))
        if parts:
            yield ModelRequest(parts=parts)

    @property
    def _names(self) -> dict[str, str]:
        if not hasattr(self, "_called"):
            calls = (call for one in self.job.messages for call in one.get("tool_calls") or ())
            self._called = {call["id"]: call["function"]["name"] for call in calls}
        return self._called

    def shown(self, place: int) -> Shown:
        return [one for message in self.held for one in self._back(message)]

    def _back(self, message: Any) -> Iterable["int | Chat"]:
        if message.kind == "response":
            place = int(message.provider_response_id or -1)
            if place >= 0 and len(message.parts) == len(self._parts(place)):
                yield place
                return
            yield {
                "role": "assistant",
                "content": "\n\n".join(part.content for part in message.parts if part.part_kind == "text"),
            }
            return
        for part in message.parts:
            match part.part_kind:
                case "tool-return":
                    place = self._results[part.tool_call_id]
                    own = self.job.messages[place]
                    yield place if part.content == content_text(own) else {**own, "content": str(part.content)}
                case "system-prompt" | "user-prompt":
                    role = part.part_kind.partition("-")[0]
                    text = part.content if isinstance(part.content, str) else "\n".join(map(str, part.content))
                    yield self._words.get((role, text), {"role": role, "content": text})
                case kind:
                    yield {"role": "user", "content": str(getattr(part, "content", kind))}

    def _parts(self, place: int) -> list[Any]:
        message = self.job.messages[place]
        return [*([1] * bool(content_text(message))), *(message.get("tool_calls") or ())]


def framed(text: str) -> int:
    """Return its tokens, with an estimate for the message or call around it."""
    return count(text) + 8


def _file_read(call: Any) -> str | None:
    given = call.args_as_dict()
    return (
        next((given[key] for key in ("file_path", "path") if isinstance(given.get(key), str)), None)
        if "read" in call.tool_name.lower()
        else None
    )
