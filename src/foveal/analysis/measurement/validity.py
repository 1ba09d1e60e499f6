"""Validity of chat messages, judged twice: by the dialect's rules, and by a few lines that share no code with them."""

from collections.abc import Iterator, Sequence

from foveal.analysis.measurement.case import Chat, content_text
from foveal.dialects.openai_chat import rules as openai_chat_rules


def problems(messages: Sequence[Chat], tools: Sequence[Chat], *, since: int) -> list[str]:
    """Return all problems. Messages before `since` were at the same place in a prompt that was valid."""
    request = {"messages": messages, **({"tools": tools} if tools else {})}
    found = [str(problem) for problem in openai_chat_rules.problems(request, since)]
    return [*found, *_pairing(messages, since)]


def _pairing(messages: Sequence[Chat], since: int) -> Iterator[str]:
    waiting: set[str] = set()
    # Results may be new where their calls are not: begin with the last message before them that is no result.
    first = next((i for i in range(min(since, len(messages)) - 1, 0, -1) if messages[i]["role"] != "tool"), 0)
    for i, message in enumerate(messages[first:], first):
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
