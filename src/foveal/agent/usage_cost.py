"""The cost of model calls."""

from collections.abc import Iterable, Iterator

from foveal.agent.run_events import CostUnknown, RunEvent, SummaryBilled, UsageCounted
from foveal.models.catalogue import cost_usd, find
from foveal.values.entry import Usage


def usage_usd(usage: Usage) -> float | None:
    """Return the cost of one call; None if its model has no known price."""
    facts = find(usage.model)
    if not facts.known:
        return None
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return cost_usd(facts, read, written, usage.output_tokens, fresh=max(0, usage.input_tokens - read - written))


def bills_in(events: Iterable[RunEvent]) -> Iterator[float | None]:
    """Yield the cost of each call of a model that the events tell, summaries included; None for one whose cost is unknown."""
    for event in events:
        match event:
            case UsageCounted(usage=usage):
                yield usage_usd(usage)
            case SummaryBilled(usd=usd):
                yield usd
            case CostUnknown():
                yield None
            case _:
                pass
