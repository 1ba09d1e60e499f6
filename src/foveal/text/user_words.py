"""The user's own words, without the text that harnesses put around them or send in the user's role.

Harnesses send surroundings before the first request, reminders after it, and notices that a task is over. An engine that
takes them for requests keeps them for ever and loses the real one. The text is read in one pass, however long it is.
"""

import re
from collections.abc import Callable

from foveal.text.lazy_pattern import lazy_pattern

_OPENS = re.compile(r"\s{0,20}<([a-zA-Z][\w-]{0,40})[ >\n]")
_CLOSES = re.compile(r"</([a-zA-Z][\w-]{0,40})>\Z")
_TAG_CHARS = 48
_HARNESS = lazy_pattern(
    r"(?:system-reminder|system-notification|environment_(?:context|details)|(?:user|skills)_instructions|turn_aborted"
    r"|(?:task-|subagent_)notification|(?:local-)?command-[\w-]{1,20}|bash-[\w-]{1,20}|ide_[\w-]{1,20}|user_shell_command"
    r"|user_action|recommended_plugins|skill|[\w-]{1,24}-hook|(?:session|untrusted)_context|total_tokens|new-diagnostics)\Z",
    re.IGNORECASE,
)
"""Tags of Claude Code, Codex, Cline and Gemini CLI. Other tags are the user's own: many users wrap a whole request in one."""
_NOTE = re.compile(r"\s{0,20}\[(?:Request interrupted by user|Image: |Pasted |Old tool )[^\]\n]{0,300}\]")
_NOT_SPOKEN = lazy_pattern(
    r"\s{0,20}(?:Caveat: The messages below|This session is being continued from|Base directory for this skill"
    r"|--- Observation|# AGENTS\.md instructions|\[CONTEXT|Tools? loaded\.\s{0,20}\Z)"
)
"""Beginnings of messages that come from the harness from end to end, and notices that are nothing else."""
_STANDING = lazy_pattern(
    r"\s{0,20}(?:# AGENTS\.md instructions|<user_instructions[ >\n]|<system-reminder>[^#]{0,200}# claudeMd)"
)
_ARGUMENTS = "command-args"
"""Tag around the words that the user wrote after the name of a command."""


def is_harness(tag: str) -> bool:
    """Return whether a known harness frames its own words in this tag."""
    return _HARNESS().match(tag) is not None


def is_project_instructions(text: str) -> bool:
    """Return whether a harness hands over the project's own instructions: no request, and yet to be followed."""
    return _STANDING().match(text) is not None


def user_words(text: str, is_frame: Callable[[str], bool] = is_harness) -> str:
    """Return the text without the frames around it; empty if all of it is framed. `is_frame` decides about tags before the
    words."""
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
    """Return the place where the frames begin that a harness put after the words."""
    end = len(text)
    while True:
        while end > start and text[end - 1].isspace():
            end -= 1
        found = _CLOSES.search(text, max(start, end - _TAG_CHARS), end)
        opened = text.rfind(f"<{found[1]}", start, found.start()) if found and is_harness(found[1]) else -1
        if opened < 0:
            return end
        end = opened
