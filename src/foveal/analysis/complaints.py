"""Warnings for whoever runs a command, on stderr."""

import sys
from typing import TextIO

from foveal.text.display import visible


def complain(text: object) -> None:
    """One line on stderr, in the form of all our errors."""
    line = " ".join(visible(str(text)).split("\n"))
    sys.stderr.write(_encodable(f"foveal: {line}\n", sys.stderr))


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
