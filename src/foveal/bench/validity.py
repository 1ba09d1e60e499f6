"""Would a provider take these messages? Judged twice: by the dialect's rules, and by a few lines that share no code with them."""

from collections.abc import Iterator, Sequence

from foveal.bench.case import Chat, content_text
from foveal.dialects import openai_chat_rules


def problems(messages: Sequence[Chat], tools: Sequence[Chat], *, since: int) -> list[str]:
    """What is wrong. Messages before `since` are known to be right, as far as the dialect's rules look at them one by one."""
    request = {"messages": messages, **({"tools": tools} if tools else {})}
    found = [str(problem) for problem in openai_chat_rules.problems(request, since)]
    return [*found, *_pairing(messages)]


def _pairing(messages: Sequence[Chat]) -> Iterator[str]:
    waiting: set[str] = set()
    for i, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"message {i} answers no call"
            waiting.discard(message.get("tool_call_id") or "")
            continue
        if waiting:
            yield f"message {i} stands where results are missing"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
        if role == "assistant" and not waiting and not content_text(message):
            yield f"message {i} says nothing"
    if waiting:
        yield "the last calls are not answered"
    if not any(message["role"] in ("user", "tool") for message in messages):
        yield "nobody but the system speaks"
