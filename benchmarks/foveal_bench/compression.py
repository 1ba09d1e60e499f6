"""Conditional compression: how well does the prompt explain the next action?

Far grounding asks whether names and lines stand in the prompt, and counts a bare name as much as a line that says what it is.
Here the action is compressed with a text as dictionary: C(action | text) is the bytes that somebody who knows the text still
has to be told. **Explained** is

    (C(action | near) - C(action | prompt)) / (C(action | near) - C(action | everything)),

sums over actions, where near is the system prompt and the newest 12 messages, prompt is the text that the policy sends, and
everything is the whole history. 0 is as good as a window of 12 messages, 1 as good as everything.
"""

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from foveal.analysis.measurement.case import Case, Chat, text_of
from foveal.analysis.measurement.grounding import FAR, action_text
from foveal.analysis.measurement.outcome import ActionSize

MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
LEVEL = 19
"""The level of zstd at which its tables hold a history of megabytes, and matches of three bytes count."""

_actions: dict[tuple[str, str], list[bytes]] = {}
"""The actions of a case."""
_fixed: dict[tuple[str, str, int], tuple[int, int]] = {}
"""The sizes of an action given near and everything, which are the same for all policies."""


def is_installed() -> bool:
    """Return whether this Python has zstd."""
    try:
        return find_spec(MODULE) is not None
    except ModuleNotFoundError:
        return False


def gauge(case: Case, number: int, shown: str) -> ActionSize:
    """Return the sizes of the action of a call, given near, the shown text and everything."""
    action = actions(case)[number]
    key = case.group, case.id, number
    if key not in _fixed:
        messages = case.messages[: case.calls[number]]
        _fixed[key] = size(action, _text(near(messages))), size(action, _text(messages))
    of_near, of_everything = _fixed[key]
    return ActionSize(of_near, size(action, _bytes(shown)), of_everything)


def actions(case: Case) -> list[bytes]:
    """Return the text of each call's action."""
    key = case.group, case.id
    if key not in _actions:
        replies = (step.message for step in case.recording.steps if step.message.role == "assistant")
        _actions[key] = [_bytes(action_text(message)) for message in replies]
    return _actions[key]


def near(messages: Sequence[Chat]) -> list[Chat]:
    """Return the system prompt and the newest messages."""
    lead = next((i for i, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return [*messages[:lead], *messages[max(lead, len(messages) - FAR) :]]


def size(action: bytes, text: bytes) -> int:
    """Return the bytes of the action, compressed with the text as dictionary."""
    if not action:
        return 0
    zstd = _zstd()
    # zstd takes no dictionary of less than 8 bytes.
    known = {"zstd_dict": zstd.ZstdDict(text, is_raw=True).as_prefix} if len(text) >= 8 else {}
    return len(zstd.compress(action, level=LEVEL, **known))


@cache
def _zstd() -> Any:
    return import_module(MODULE)


def _text(messages: Sequence[Chat]) -> bytes:
    return _bytes("\n".join(map(text_of, messages)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
