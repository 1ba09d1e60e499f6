"""The meter of an agent's summariser: its calls are written into the log of the run, so that they are part of its cost."""

from collections import deque
from collections.abc import Awaitable

from foveal.agent.definition import AgentDefinition
from foveal.agent.run_marks import SummaryPaid
from foveal.agent.usage_cost import usage_usd
from foveal.summary.question import Question
from foveal.values.entry import Usage
from foveal.writers.port import Reply, Summariser, SummariserAnswer, Unanswered
from foveal.writers.registry import find


class SummaryMeter:
    """Asks the summariser of an agent, and keeps the bills until they are taken. It may be asked in any thread."""

    def __init__(self, agent: AgentDefinition) -> None:
        named = agent.policy.compact.summariser
        self._models = agent.policy.models
        self._summariser = agent.summariser or (find(named) if named else None)
        self._paid: deque[SummaryPaid] = deque()

    @property
    def summariser(self) -> Summariser | None:
        """The summariser with the meter; None if the agent has none, and code alone writes its summaries."""
        inner = self._summariser
        if inner is None:
            return None

        async def metered(question: Question) -> SummariserAnswer:
            try:
                answer = inner(question)
                if isinstance(answer, Awaitable):
                    answer = await answer
            except Unanswered as error:
                if error.usage is not None:
                    self._note(error.usage, None)
                raise
            reply = answer if isinstance(answer, Reply) else Reply("")
            self._note(reply.usage, reply.cost_usd)
            return answer

        metered.__name__ = getattr(inner, "__name__", type(inner).__name__)
        return metered

    def take(self) -> list[SummaryPaid]:
        """Return the bills since the last time."""
        return [self._paid.popleft() for _ in range(len(self._paid))]

    def _note(self, usage: Usage | None, cost_usd: float | None) -> None:
        usd = usage_usd(usage, self._models) if cost_usd is None and usage is not None else cost_usd
        self._paid.append(SummaryPaid(usage, usd))
