"""What a terminal would show of a text: no colours, progress bars in their last state."""

import re

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"  # titles and links
    r"|[()][0-9A-Za-z]|[0-9=>@-Z\\^_])"
)


def clean_lines(text: str) -> list[str]:
    """The lines, without escape sequences; of a line that was overwritten by carriage returns, the last state."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    lines = text.split("\n")
    if "\r" in text:
        lines = [_last_state(line) if "\r" in line else line for line in lines]
    return lines


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
