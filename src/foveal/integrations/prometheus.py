"""Metrics of a host's sessions in the text format of Prometheus; no dependency.

    metrics = SessionMetrics()
    session = foveal.Session(store, "fix-login", model="gpt-5", host=foveal.Host(on_event=metrics))
    …
    return Response(metrics.text(), media_type=CONTENT_TYPE)          # at /metrics of the host's own server

The names are those of the gateway's `/metrics`, so that one dashboard shows both.
"""

from collections.abc import Mapping
from threading import Lock

from foveal.values.events import (
    CompactionEnded,
    Event,
    LimitLearned,
    PromptBuilt,
    PromptRefused,
    Recalled,
    UsageReported,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP: Mapping[str, str] = {
    "calls": "Model calls.",
    "asked_tokens": "Tokens of the requests as clients sent them.",
    "sent_tokens": "Tokens of the prompts as they were sent, in our count.",
    "input_tokens": "Input tokens as the providers counted them, those of their caches included.",
    "cached_tokens": "Input tokens that the providers read from their caches.",
    "output_tokens": "Output tokens as the providers counted them.",
    "folds": "Folds: the only thing that moves a prompt's prefix.",
    "rebilled_tokens": "Tokens that folds made the providers bill anew.",
    "recalls": "Calls of models to the tools that recall and search.",
    "unmanaged": "Requests that were passed on as they came.",
    "recovered": "Prompts that a provider found too long, and that were sent again smaller.",
    "failed": "Requests of conversations that a provider refused, did not answer, or broke off.",
    "prompts": "Prompts that callers of the HTTP API were given.",
    "refused_prompts": "Prompts that could not be built within their limits.",
    "limits_learned": "Times that a provider was found to accept less than was assumed.",
}


def counters_text(values: Mapping[str, int]) -> str:
    """Return counters in the text format of Prometheus, by the names of `HELP`."""
    lines = [
        line
        for name, value in values.items()
        for line in (
            f"# HELP foveal_{name}_total {HELP[name]}",
            f"# TYPE foveal_{name}_total counter",
            f"foveal_{name}_total {value}",
        )
    ]
    return "\n".join([*lines, ""])


class SessionMetrics:
    """Counts the events of any number of sessions, in any thread."""

    def __init__(self) -> None:
        self._values = dict.fromkeys(HELP.keys() - {"asked_tokens", "unmanaged", "recovered"}, 0)
        self._lock = Lock()

    def __call__(self, event: Event) -> None:
        """Take an event of a session in."""
        with self._lock:
            for name, value in _counted(event).items():
                self._values[name] += value

    def text(self) -> str:
        """Return all counters in the text format of Prometheus."""
        with self._lock:
            return counters_text(dict(sorted(self._values.items())))


def _counted(event: Event) -> dict[str, int]:
    """Return the counters that an event raises, and by how much."""
    match event:
        case PromptBuilt():
            return {"calls": 1, "sent_tokens": event.tokens}
        case UsageReported():
            return {
                "input_tokens": event.input_tokens,
                "cached_tokens": event.cache_read_tokens,
                "output_tokens": event.output_tokens,
            }
        case CompactionEnded():
            return {"folds": 1, "rebilled_tokens": event.rebilled}
        case Recalled():
            return {"recalls": 1}
        case PromptRefused():
            return {"refused_prompts": 1}
        case LimitLearned():
            return {"limits_learned": 1}
        case _:
            return {}
