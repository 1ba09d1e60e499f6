"""The tool by which the agent writes the summary itself, when it has finished a part of its work.

The tool is offered when the prompt fills up. The text that the agent writes is the prose of the next summary; code still carries
the state. A checkpoint that is too short, or that holds text forbidden in a summary, gets an error as its result, and the
session goes on.
"""

from foveal.text import guard
from foveal.values.entry import Message, ToolCall, result
from foveal.values.own_tools import read_checkpoint

MOST_CHARACTERS = 12_000


def answer(call: ToolCall) -> Message:
    """Return the result of a call to the tool."""
    try:
        text = read_checkpoint(call.arguments).prose
    except ValueError as error:
        return result(call.id, f"The checkpoint was not kept: {error}", status="error")
    if wrong := _wrong(text):
        return result(call.id, f"The checkpoint was not kept: {wrong}", status="error")
    return result(call.id, "Kept. Older messages may be folded from here on; recall brings them back.")


def _wrong(text: str) -> str:
    if len(text) < 80:
        return f"{len(text)} characters say too little to go on from."
    if len(text) > MOST_CHARACTERS:
        return f"{len(text):,} characters are more than the {MOST_CHARACTERS:,} that a summary may take."
    tags = guard.forged_tags(text)
    return f"it holds {tags[0]!r}, which only the engine may write." if tags else ""
