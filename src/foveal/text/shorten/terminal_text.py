"""Text as a terminal would show it: no colours, progress bars in their last state."""

import re

from foveal.text import guard as frame

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"  # titles and links
    r"|[()][0-9A-Za-z]|[0-9=>@-Z\\^_])"
)


def clean_lines(text: str) -> list[str]:
    """Return the lines without escape sequences; of a line that was overwritten by carriage returns, the last state."""
    if "\x1b" not in text and "\r" not in text:
        return text.split("\n")
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n")]
    return neutralise_again(lines, text)


def neutralise_again(lines: list[str], text: str) -> list[str]:
    """Return lines that were made from a text, neutralised anew if the text was safe and the lines are not.

    A step that removes something from a text can join two halves of a form. A text that was not safe comes from a host who
    wants it so.
    """
    return (
        list(frame.neutralise_joined(tuple(lines))) if frame.tags("\n".join(lines)) and not frame.tags(text) else lines
    )
