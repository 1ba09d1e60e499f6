"""haystack's compaction hook: pruning tool results, or a sliding window."""

import json
from typing import Any

from haystack.components.agents.state.state import State
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.hooks import compaction

from engines.port import KEEP, Engine, Job, Shown, content_text, tokens_of


class Haystack(Engine):
    """Messages know their place by their meta; the hook's own state forgets compacted messages."""

    def __init__(self, job: Job, *, compactor: str) -> None:
        super().__init__(job)
        self.history = self._native()
        self.hook = compaction.CompactionHook(
            getattr(compaction, compactor)(),
            context_window=job.budget,
            compact_at=1.0,
            compact_to=KEEP,
            token_counter=self,
        )
        self.state = State({"context_tokens": {"type": int}, "tools": {"type": list}})
        self.state.data.update(messages=[], context_tokens=0, tools=[])
        self.known = 0

    def count(self, messages: list[Any], tools: Any = None) -> int:
        return sum(self._size(message) for message in messages)

    def _size(self, message: Any) -> int:
        place = self._place(message)
        return tokens_of(message.to_openai_dict_format()) if place is None else self.job.sizes[place]

    def _place(self, message: Any) -> int | None:
        place = message.meta.get("place")
        return place if place is not None and self.history[place]._content == message._content else None

    def arrange(self, place: int) -> None:
        self.state.data["messages"].extend(self.history[self.known : place])
        self.known = place

    def step(self, place: int) -> None:
        self.hook.run(self.state)

    def shown(self, place: int) -> Shown:
        found = ((self._place(one), one) for one in self.state.data["messages"])
        return [at if at is not None else one.to_openai_dict_format() for at, one in found]

    def _native(self) -> list[Any]:
        calls: dict[str, Any] = {}
        made: list[Any] = []
        for place, message in enumerate(self.job.messages):
            meta, text = {"place": place}, content_text(message)
            match message["role"]:
                case "system":
                    made.append(ChatMessage.from_system(text, meta=meta))
                case "user":
                    made.append(ChatMessage.from_user(text, meta=meta))
                case "tool":
                    made.append(ChatMessage.from_tool(text, origin=calls[message["tool_call_id"]], meta=meta))
                case _:
                    own = [
                        ToolCall(call["function"]["name"], json.loads(call["function"]["arguments"]), id=call["id"])
                        for call in message.get("tool_calls") or ()
                    ]
                    calls.update({call.id: call for call in own})
                    made.append(ChatMessage.from_assistant(text or None, tool_calls=own or None, meta=meta))
        return made
