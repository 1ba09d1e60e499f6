"""The tool by which the agent writes the summary itself, when it has finished a part of its work.

The tool is offered when the prompt fills up. The text that the agent writes is the prose of the next summary; code still carries
the state. A checkpoint that is too short, or that holds text forbidden in a summary, gets an error as its result, and the
session goes on.
"""

from typing import Any

import msgspec

from foveal.text import guard
from foveal.values.entry import Message, ToolCall, result
from foveal.values.own_tools import CHECKPOINT_TOOL

MOST_CHARACTERS = 12_000

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": CHECKPOINT_TOOL,
        "description": (
            "Call this when a part of the task is finished and the conversation is long: older messages are then folded, "
            "and you go on from what you write here. Files, commands, failures and todos are kept for you."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "summary": {"type": "string", "description": "what was done and found, and why it was decided so"},
                "state": {"type": "string", "description": "where the task stands: done, under way, failed"},
                "next": {"type": "string", "description": "the next steps, the most urgent first"},
            },
            "required": ["summary", "next"],
        },
    },
}


class _Checkpoint(msgspec.Struct, frozen=True):
    summary: str
    next: str
    state: str = ""


def answer(call: ToolCall) -> Message:
    """Return the result of a call to the tool."""
    try:
        text = prose(call.arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return result(call.id, f"The checkpoint was not kept: {error}", status="error")
    if wrong := _wrong(text):
        return result(call.id, f"The checkpoint was not kept: {wrong}", status="error")
    return result(call.id, "Kept. Older messages may be folded from here on; recall brings them back.")


def prose(arguments: str) -> str:
    """Return the agent's text under the headings of a summary."""
    written = msgspec.json.decode(arguments, type=_Checkpoint)
    sections = (("Summary", written.summary), ("State", written.state), ("Next", written.next))
    return "\n".join(f"## {name}\n{text.strip()}" for name, text in sections if text.strip())


def _wrong(text: str) -> str:
    if len(text) < 80:
        return f"{len(text)} characters say too little to go on from."
    if len(text) > MOST_CHARACTERS:
        return f"{len(text):,} characters are more than the {MOST_CHARACTERS:,} that a summary may take."
    tags = guard.forged_tags(text)
    return f"it holds {tags[0]!r}, which only the engine may write." if tags else ""
