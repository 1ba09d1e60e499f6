"""The start of a stream: whether something of a reply has come yet, and the error that may stand in its place.

Most providers refuse a prompt with a status. OpenAI Responses, and servers that imitate OpenAI Chat, may say 200 first and then
tell the error as an event.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from foveal.dialects.hiding import event_json
from foveal.dialects.json_values import fields
from foveal.dialects.port import Wire
from foveal.dialects.sse import SseEvent

_BEGINNINGS = ("queued", "in_progress")


def first_told(events: Iterable[SseEvent]) -> Wire | None:
    """Return the data of the first event that is more than the frame of a reply; None if there is none."""
    told = (event_json(event) or {} for event in events)
    return next((data for data in told if not _is_beginning(data)), None)


def _is_beginning(data: Mapping[str, Any]) -> bool:
    """Return whether an event says that a response has begun, and nothing else."""
    return fields(data.get("response")).get("status") in _BEGINNINGS


def stream_error(data: Mapping[str, Any]) -> object:
    """Return the error that an event tells; None if it tells none."""
    return data.get("error") or fields(data.get("response")).get("error")
