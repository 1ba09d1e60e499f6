"""OpenHands' condenser with a limit in tokens: events are forgotten and a summary stands in their place. Python 3.12."""

from collections.abc import Iterable
from typing import Any

from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, MessageEvent, ObservationEvent, SystemPromptEvent
from openhands.sdk.event.condenser import Condensation
from openhands.sdk.llm import LLM, LLMResponse, Message, MessageToolCall, TextContent
from openhands.sdk.tool.schema import Observation

from engines.port import Engine, Job, Shown, compact, content_text, count


class RecordedObservation(Observation):
    """The recorded result of a tool."""


class OpenHands(Engine):
    """Events know their place by their id."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.llm = _openhands_llm(job)
        self.condenser = LLMSummarizingCondenser(
            llm=self.llm, max_tokens=job.budget, max_size=100_000, keep_first=job.lead + 1
        )
        self.view = View.from_events([])
        self.known, self.events = 0, list(self._native())
        self.sent: list[Any] = []

    def arrange(self, place: int) -> None:
        for event in self.events:
            if self.known <= int(event.id.partition("-")[0]) < place:
                self.view.append_event(event)
        self.known = place

    def step(self, place: int) -> None:
        done = self.condenser.condense(self.view, agent_llm=self.llm)
        if isinstance(done, Condensation):
            self.view.append_event(done)

    def shown(self, place: int) -> Shown:
        found: Shown = []
        for event in self.view.events:
            at = event.id.partition("-")[0]
            if not at.isdecimal() or "-" not in event.id or len(at) > 6:
                found.append({"role": "user", "content": "".join(part.text for part in event.to_llm_message().content)})
            elif not found or found[-1] != int(at):
                found.append(int(at))
        return found

    def _native(self) -> Iterable[Any]:
        actions: dict[str, tuple[str, str]] = {}
        for place, message in enumerate(self.job.messages):
            text = [TextContent(text=content_text(message))]
            match message["role"]:
                case "system":
                    yield SystemPromptEvent(id=f"{place}-s", source="agent", system_prompt=text[0], tools=[])
                case "user":
                    said = Message(role="user", content=text)
                    yield MessageEvent(id=f"{place}-u", source="user", llm_message=said)
                case "tool":
                    action, name = actions[message["tool_call_id"]]
                    yield ObservationEvent(
                        id=f"{place}-o", source="environment", tool_name=name, tool_call_id=message["tool_call_id"],
                        observation=RecordedObservation(content=text), action_id=action,
                    )  # fmt: skip
                case _ if message.get("tool_calls"):
                    for number, call in enumerate(message["tool_calls"]):
                        actions[call["id"]] = f"{place}-{number}", call["function"]["name"]
                        yield ActionEvent(
                            id=f"{place}-{number}", source="agent", thought=text if number == 0 and text[0].text else [],
                            tool_name=call["function"]["name"], tool_call_id=call["id"], llm_response_id=f"reply-{place}",
                            tool_call=MessageToolCall(origin="completion", id=call["id"], **call["function"]),
                        )  # fmt: skip
                case _:
                    said = Message(role="assistant", content=text)
                    yield MessageEvent(id=f"{place}-a", source="agent", llm_message=said)


def _openhands_llm(job: Job) -> Any:
    class Stub(LLM):
        def completion(self, *args: Any, **kwargs: Any) -> Any:
            answer = Message(role="assistant", content=[TextContent(text=job.summary())])
            return LLMResponse.model_construct(message=answer, metrics=None, raw_response=_Answered())

        def get_token_count(self, messages: Any, **_: Any) -> int:
            return sum(_openhands_size(message) for message in messages)

    return Stub(model="gpt-4o", api_key="x", usage_id="bench")


class _Answered:
    id = "summary"


def _openhands_size(message: Any) -> int:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls or ()
    ]
    text = "\n".join(part.text for part in message.content if hasattr(part, "text"))
    return 4 + count(text) + (count(compact(calls)) if calls else 0) + count(message.tool_call_id or "")
