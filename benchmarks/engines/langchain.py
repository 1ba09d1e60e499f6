"""LangChain's middleware: clearing tool results in the request, and summarising the state."""

from collections.abc import Iterable, Sequence
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import convert_to_messages, convert_to_openai_messages

from engines.port import KEEP, KEPT_RESULTS, Chat, Engine, Job, Shown, count


class LangChain(Engine):
    """Messages know their place by their id."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.history = convert_to_messages(job.messages)
        for place, message in enumerate(self.history):
            message.id = str(place)
        self.sent: Sequence[Any] = ()

    def count(self, messages: Iterable[Any], tools: Any = None) -> int:
        return sum(self._size(message) for message in messages)

    def _size(self, message: Any) -> int:
        place = self._place(message)
        return 4 + count(str(message.content)) + 8 if place is None else self.job.sizes[place]

    def _place(self, message: Any) -> int | None:
        """Where an unchanged message comes from."""
        if not (message.id or "").isdecimal():
            return None
        own = self.history[int(message.id)]
        same = own.content == message.content and getattr(own, "tool_calls", None) == getattr(
            message, "tool_calls", None
        )
        return int(message.id) if same else None

    def shown(self, place: int) -> Shown:
        return [*range(self.job.lead), *map(self._back, self.sent)]

    def _back(self, message: Any) -> "int | Chat":
        place = self._place(message)
        return place if place is not None else convert_to_openai_messages(message)

    def request(self, messages: list[Any], state: dict[str, Any]) -> Any:
        return ModelRequest(
            model=FakeListChatModel(responses=["x"]), messages=messages, system_message=None, tool_choice=None, tools=[],
            response_format=None, state={**state, "messages": messages}, runtime=None,
        )  # fmt: skip


class LangChainClear(LangChain):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        edits = [ClearToolUsesEdit(trigger=job.room, keep=KEPT_RESULTS)]
        self.middleware = ContextEditingMiddleware(edits=edits, token_counter=self.count)

    def arrange(self, place: int) -> None:
        self.asking = self.request(self.history[self.job.lead : place], {})

    def step(self, place: int) -> None:
        self.sent = self.middleware.wrap_model_call(self.asking, lambda asked: asked.messages)


class LangChainSummary(LangChain):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.middleware = SummarizationMiddleware(
            model=FakeListChatModel(responses=["x"]), summarizer=job.summary, trigger=("tokens", job.room),
            keep=("tokens", int(job.room * KEEP)), trim_tokens_to_summarize=None, token_counter=self.count,
        )  # fmt: skip
        self.known = job.lead

    def arrange(self, place: int) -> None:
        self.sent = [*self.sent, *self.history[self.known : place]]
        self.known = place

    def step(self, place: int) -> None:
        update = self.middleware.before_model({"messages": self.sent}, None)
        self.sent = self.sent if update is None else update["messages"][1:]
