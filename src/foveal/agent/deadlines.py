"""Deadlines of questions to the user: after it an approval is denied, and any other question has its stated answer."""

from collections.abc import Iterable
from math import inf

import msgspec

from foveal.agent.run_marks import UserAnswered
from foveal.agent.run_state import RunState
from foveal.agent.tools import UserAnswer, UserQuestion


def with_deadline(question: UserQuestion, timeout_s: float | None, now_ms: int) -> UserQuestion:
    """Return a question that waits for so long from now on; as it is if it has a deadline, or if no time is named."""
    if timeout_s in (None, inf) or question.until_ms is not None:
        return question
    return msgspec.structs.replace(question, until_ms=now_ms + round(timeout_s * 1_000))


def is_overdue(question: UserQuestion, now_ms: int) -> bool:
    """Return whether the time for an answer is up."""
    return question.until_ms is not None and question.until_ms <= now_ms


def overdue_answers(state: RunState, now_ms: int) -> list[UserAnswered]:
    """Return the answers that the open questions of a run get because nobody gave one in time."""
    return [UserAnswered(one.id, _unanswered(one)) for one in state.asked.values() if is_overdue(one, now_ms)]


def first_deadline(questions: Iterable[UserQuestion]) -> int | None:
    """Return the time at which the first of these questions is overdue; None if all of them wait for ever."""
    return min((one.until_ms for one in questions if one.until_ms is not None), default=None)


def _unanswered(question: UserQuestion) -> UserAnswer:
    if question.kind == "question" and question.otherwise is not None:
        return UserAnswer(question.otherwise, question=question.id, source="timeout")
    return UserAnswer("nobody answered in time", "deny", question=question.id, source="timeout")
