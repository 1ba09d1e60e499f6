"""What a terminal would show of a text: no colours, progress bars in their last state."""

import re

from foveal.text import guard as frame

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"  # titles and links
    r"|[()][0-9A-Za-z]|[0-9=>@-Z\\^_])"
)


def clean_lines(text: str) -> list[str]:
    """The lines, without escape sequences; of a line that was overwritten by carriage returns, the last state."""
    if "\x1b" not in text and "\r" not in text:
        return text.split("\n")
    lines = [_last_state(line) if "\r" in line else line for line in _ESCAPES.sub("", text).split("\n")]
    return neutralise_again(lines, text)


def neutralise_again(lines: list[str], text: str) -> list[str]:
    """The lines that were made from a text, neutralised anew if the text was safe and they are not.

    Whatever takes something out of a text can join what it held apart. A text that was not safe is a host's who wants it so.
    """
    return (
        list(frame.neutralise_joined(tuple(lines))) if frame.tags("\n".join(lines)) and not frame.tags(text) else lines
    )


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
