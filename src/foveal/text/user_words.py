"""What a user said, without what harnesses put around it or into the user's mouth.

Harnesses speak in the user's role: surroundings before the first request, reminders after it, notices that a task is over. Who
takes them for requests keeps them for ever and loses the real one. One pass over the text, whatever it holds.
"""

import re
from collections.abc import Callable

from foveal.text.lazy_pattern import lazy_pattern

_OPENS = re.compile(r"\s{0,20}<([a-zA-Z][\w-]{0,40})[ >\n]")
_CLOSES = re.compile(r"</([a-zA-Z][\w-]{0,40})>\Z")
_TAG_CHARS = 48
_HARNESS = lazy_pattern(
    r"(?:system-reminder|system-notification|environment_(?:context|details)|user_instructions|turn_aborted"
    r"|(?:task-|subagent_)notification|(?:local-)?command-[\w-]{1,20}|bash-[\w-]{1,20}|ide_[\w-]{1,20}|user_shell_command"
    r"|user_action|recommended_plugins|skill|[\w-]{1,24}-hook)\Z",
    re.IGNORECASE,
)
"""Tags of Claude Code, Codex and Cline. Other tags are the user's own: many wrap a whole request in one."""
_NOTE = re.compile(r"\s{0,20}\[(?:Request interrupted by user|Image: |Pasted |Old tool )[^\]\n]{0,300}\]")
_NOT_SPOKEN = lazy_pattern(
    r"\s{0,20}(?:Caveat: The messages below|This session is being continued from|Base directory for this skill"
    r"|--- Observation|# AGENTS\.md instructions|\[CONTEXT)"
)
"""A message that begins so is the harness's from end to end."""
_STANDING = lazy_pattern(
    r"\s{0,20}(?:# AGENTS\.md instructions|<user_instructions[ >\n]|<system-reminder>[^#]{0,200}# claudeMd)"
)
_ARGUMENTS = "command-args"
"""What the user wrote after the name of a command."""


def is_harness(tag: str) -> bool:
    """Whether a known harness frames its own words in this tag."""
    return _HARNESS().match(tag) is not None


def is_project_instructions(text: str) -> bool:
    """Whether a harness hands over the project's own instructions: no request, and yet to be followed."""
    return _STANDING().match(text) is not None


def user_words(text: str, is_frame: Callable[[str], bool] = is_harness) -> str:
    """What is left without the frames around it; empty if all of it is theirs. `is_frame` is asked of tags before the words."""
    arguments, at = "", 0
    while found := _NOTE.match(text, at) or _OPENS.match(text, at):
        tag = found[1] if found.lastindex else ""
        if tag and not is_frame(tag):
            break
        at = found.end()
        if tag:
            end = text.find(f"</{tag}>", at)
            if end < 0:
                return arguments
            if tag == _ARGUMENTS:
                arguments = text[at:end].strip()
            at = end + len(tag) + 3
    if _NOT_SPOKEN().match(text, at):
        return arguments
    return text[at : _end_of_words(text, at)].strip() or arguments


def _end_of_words(text: str, start: int) -> int:
    """Where the frames begin that a harness put after the words."""
    end = len(text)
    while True:
        while end > start and text[end - 1].isspace():
            end -= 1
        found = _CLOSES.search(text, max(start, end - _TAG_CHARS), end)
        opened = text.rfind(f"<{found[1]}", start, found.start()) if found and is_harness(found[1]) else -1
        if opened < 0:
            return end
        end = opened
