"""The list of skills in the static prompt, and the tool that reads one of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from foveal.context.skills.front import Skill
from foveal.context.skills.scan import SkillBody, Skills
from foveal.text.display import printable
from foveal.values.entry import ToolCall
from foveal.values.errors import BadInput

READ = "foveal_skill"
HEADER = f"Skills, each with instructions for one kind of work. Read one with `{READ}` before you do such work:"
_WIDTHS = (1_024, 240, 120, 60, 0)
"""Characters of a description, from what a skill may say down to its name alone."""

SKILL_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": READ,
        "description": "Read the instructions of a skill, or a file of it.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "file": {"type": "string", "description": "a file that the skill lists; the instructions if left out"},
            },
            "required": ["name"],
        },
    },
}


class _Asked(msgspec.Struct, frozen=True):
    name: str
    file: str | None = None


def catalogue(skills: Skills, tokens: int, count: Callable[[str], int]) -> str:
    """One line a skill, by name, in at most so many tokens; empty if there are none.

    Where they do not fit, all descriptions are cut to the same width, so that no skill is told better than another; where not
    even the names do, the last line says how many are left out.
    """
    if not skills.skills:
        return ""
    for width in _WIDTHS:
        text = _listed(skills.skills, width)
        if count(text) <= tokens:
            return text
    low, high = 0, len(skills.skills) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(_cut(skills.skills, middle)) <= tokens else (low, middle - 1)
    text = _cut(skills.skills, low)
    if count(text) > tokens:
        raise BadInput(
            f"a catalogue of skills does not fit into {tokens:,} tokens; allow it {count(text):,} or leave it out"
        )
    return text


def _listed(skills: Sequence[Skill], width: int) -> str:
    lines = (f"- {skill.name}" + (f": {_short(skill.description, width)}" if width else "") for skill in skills)
    return "\n".join([HEADER, *lines])


def _cut(skills: Sequence[Skill], number: int) -> str:
    return f"{_listed(skills[:number], 0)}\n- and {len(skills) - number} more, which the user can name"


def _short(description: str, width: int) -> str:
    """A description on one line: it is a stranger's text and opens no other."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in description).split())
    return plain if len(plain) <= width else plain[: width - 1].rstrip() + "…"


def answer(call: ToolCall, skills: Skills) -> str:
    """What the tool returns; `BadInput` with words for the model if there is no such skill or file."""
    try:
        asked = msgspec.json.decode(call.arguments, type=_Asked)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the arguments are not understood: {error}; pass the name of a skill") from None
    if asked.file is None:
        return told(skills.body(asked.name))
    data = skills.resource(asked.name, asked.file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{printable(asked.file)}: is not text; it has {len(data):,} bytes") from None


def told(body: SkillBody) -> str:
    """A skill's text, and the files that can be read beside it."""
    files = [f"- {printable(one.path)} ({one.size_bytes:,} bytes)" for one in body.resources]
    return "\n".join([body.text, *(["", f"[files of the skill {body.name}]", *files] if files else [])])
