"""The meter of an agent's summariser: its calls are written into the log of the run, so that they are part of its cost."""

from collections import deque
from collections.abc import Awaitable
from contextlib import suppress

from foveal.agent.definition import AgentDefinition
from foveal.agent.run_marks import SummaryPaid
from foveal.agent.usage_cost import usage_usd
from foveal.summary.question import Question
from foveal.values.entry import Usage
from foveal.writers.faults import describe
from foveal.writers.port import Reply, Summariser, SummariserAnswer, Unanswered
from foveal.writers.registry import find


class SummaryMeter:
    """Asks the summariser of an agent, and keeps the bills until they are taken. It may be asked in any thread."""

    def __init__(self, agent: AgentDefinition) -> None:
        named = agent.policy.compact.summariser
        self._models = agent.policy.models
        self._summariser = agent.summariser or (find(named) if named else None)
        self._paid: deque[SummaryPaid] = deque()
        self._asked: set[object] = set()
        """The calls that are under way, each by an object of its own."""

    @property
    def summariser(self) -> Summariser | None:
        """The summariser with the meter; None if the agent has none, and code alone writes its summaries."""
        inner = self._summariser
        if inner is None:
            return None

        async def metered(question: Question) -> SummariserAnswer:
            call = object()
            self._asked.add(call)
            try:
                answer = inner(question)
                if isinstance(answer, Awaitable):
                    answer = await answer
            except BaseException as error:
                usage = error.usage if isinstance(error, Unanswered) else None
                self._end(call, *([] if usage is None and not _is_given_up(error) else [self._bill(usage, None)]))
                raise
            reply = answer if isinstance(answer, Reply) else Reply("")
            self._end(call, self._bill(reply.usage, reply.cost_usd))
            return answer

        metered.__name__ = getattr(inner, "__name__", type(inner).__name__)
        return metered

    def take(self) -> list[SummaryPaid]:
        """Return the bills since the last time."""
        return [self._paid.popleft() for _ in range(len(self._paid))]

    def give_up(self) -> list[SummaryPaid]:
        """Return the bills since the last time, and those of calls that are under way: nobody waits for these any more, and their
        cost is unknown."""
        for call in tuple(self._asked):
            self._end(call, SummaryPaid())
        return self.take()

    def _end(self, call: object, *bills: SummaryPaid) -> None:
        """Keep the bill of a call that has ended, unless it was given up."""
        with suppress(KeyError):
            self._asked.remove(call)
            self._paid.extend(bills)

    def _bill(self, usage: Usage | None, cost_usd: float | None) -> SummaryPaid:
        usd = usage_usd(usage, self._models) if cost_usd is None and usage is not None else cost_usd
        return SummaryPaid(usage, usd)


def _is_given_up(error: BaseException) -> bool:
    """Return whether somebody has stopped waiting for an answer: the provider may bill it, or not."""
    return not isinstance(error, Exception) or "timeout" in describe(error).lower()
