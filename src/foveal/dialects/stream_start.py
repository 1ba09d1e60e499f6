"""The start of a stream: whether something of a reply has come yet, and the error that may stand in its place.

Most providers refuse a prompt with a status. OpenAI Responses, and servers that imitate OpenAI Chat, may say 200 first and then
tell the error as an event.
"""

from collections.abc import Mapping
from typing import Any

from foveal.dialects.json_values import fields

_BEGINNINGS = ("queued", "in_progress")


def is_beginning(data: Mapping[str, Any]) -> bool:
    """Return whether an event says that a response has begun, and nothing else."""
    return fields(data.get("response")).get("status") in _BEGINNINGS


def stream_error(data: Mapping[str, Any]) -> object:
    """Return the error that an event tells; None if it tells none."""
    return data.get("error") or fields(data.get("response")).get("error")
