"""The tools that Foveal itself offers to a model: their names, and the checkpoint that an agent writes."""

from typing import Any

import msgspec

RECALL_TOOL = "recall_context"
"""The model reads an original again. `project` counts these calls and shows their results as they are."""

SEARCH_TOOL = "search_context"
"""The model searches the log. Its results are shown as they are."""

CHECKPOINT_TOOL = "checkpoint_context"
"""The agent writes the prose of the next summary itself."""

CHECKPOINT: dict[str, Any] = {
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
"""Definition of the checkpoint tool."""


class Checkpoint(msgspec.Struct, frozen=True):
    """The arguments of a checkpoint."""

    summary: str
    next: str
    state: str = ""

    @property
    def prose(self) -> str:
        """The agent's text under the headings of a summary."""
        sections = (("Summary", self.summary), ("State", self.state), ("Next", self.next))
        return "\n".join(f"## {name}\n{text.strip()}" for name, text in sections if text.strip())


def read_checkpoint(arguments: str) -> Checkpoint:
    """Return the checkpoint that a call writes. Raise `ValueError` with the reason if the arguments are none."""
    try:
        return msgspec.json.decode(arguments, type=Checkpoint)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


REMEMBER_TOOL = "remember_context"
"""The agent keeps a note for the later sessions of its scope, or forgets one."""

REMEMBER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": REMEMBER_TOOL,
        "description": (
            "Keep a short note for later conversations: what the user asks you to remember, a lasting preference or decision. "
            "A note of the same key replaces the earlier one; an empty text forgets it."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "key": {"type": "string", "description": "what it is about, such as favourite-colour"},
            },
            "required": ["text"],
        },
    },
}
"""Definition of the tool that keeps notes."""


class NoteRequest(msgspec.Struct, frozen=True):
    """The arguments of a call that keeps a note."""

    text: str
    key: str | None = None


def is_offered(tool: dict[str, Any], tools: str) -> bool:
    """Tell whether a recorded list of tools holds this very tool; a host's own tool of the same name is another."""
    return f'"{tool["function"]["name"]}"' in tools and tool in msgspec.json.decode(tools, type=list[dict[str, Any]])
