"""Text as a terminal would show it: no colours, progress bars in their last state."""

import re

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"  # titles and links
    r"|[()][0-9A-Za-z]|[0-9=>@-Z\\^_])"
)


def clean_lines(text: str) -> list[str]:
    """Return the lines without escape sequences; of a line that was overwritten by carriage returns, the last state."""
    if "\x1b" not in text and "\r" not in text:
        return text.split("\n")
    return [line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).split("\n")]
