"""Chats cut into sessions: is the evidence of *earlier sessions* in the prompt when a question is asked?

The messages of a chat are cut into runs of the same length, each of which is a session of its own in one store. A line of
evidence counts if it was said in an earlier session and nobody has said it in this one.
"""

from collections.abc import Iterator, Sequence
from itertools import count

import msgspec

from foveal.analysis.measurement.case import MODEL, Sent
from foveal.analysis.measurement.grounding import text_seen
from foveal.analysis.replay.replay import recorded_clock
from foveal.session.options import Clock, Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.errors import OverBudget, Unrepresentable
from foveal_bench.chats import Answer, Chat, Question, answered, evidence_lines

SESSIONS = 10


class CutOutcome(msgspec.Struct, frozen=True):
    """One chat in sessions, with or without a memory."""

    policy: str
    budget: int
    answers: tuple[Answer, ...]
    tokens: tuple[int, ...]
    """Of each prompt."""
    refused: int
    over: int


def cut_questions(chat: Chat, sessions: int = SESSIONS) -> Iterator[tuple[int, Question]]:
    """Yield the place and the evidence of each question that has some in earlier sessions."""
    texts = [text_seen(step.message) for step in chat.case.recording.steps]
    size = _size(len(texts), sessions)
    for one in chat.asked:
        start = one.ask_index // size * size
        here = "\n".join(texts[start : one.ask_index + 1])
        lines = dict.fromkeys(line for place in one.evidence if place < start for line in evidence_lines(texts[place]))
        if earlier := tuple(line for line in lines if line not in here):
            yield one.ask_index, Question(one.category, 0, earlier)


def measure_cut(chat: Chat, budget: int, *, memory: bool, sessions: int = SESSIONS) -> CutOutcome:
    """Run a chat as sessions of one scope, or of none, and return the evidence of earlier sessions that its prompts hold."""
    steps = chat.case.recording.steps
    size, store, time = _size(len(steps), sessions), MemoryStore(), count(1)
    policy = Policy(max_context_tokens=budget, memory="chat" if memory else None)
    waiting = dict[int, list[Question]]()
    for place, question in cut_questions(chat, sessions):
        waiting.setdefault(place, []).append(question)
    answers, tokens, refused = list[Answer](), list[int](), 0
    for first in range(0, len(steps), size):
        name = f"{chat.case.id}/{first // size + 1}".replace("/", " ")
        clock = Clock(recorded_clock(name).new_id, time.__next__, recorded_clock(name).new_secret)
        with Session(store, name, model=Model(MODEL, "openai_chat"), policy=policy, clock=clock) as session:
            for place, step in enumerate(steps[first : first + size], first):
                if step.message.role == "assistant" and place > first:
                    try:
                        prompt = session.prompt(chat.case.tools)
                        tokens.append(prompt.tokens)
                        sent = Sent(prompt.request["messages"])
                    except (OverBudget, Unrepresentable) as error:
                        refused, sent = refused + 1, Sent(refused=str(error))
                    answers += (answered(question, sent) for question in waiting.pop(place - 1, ()))
                session.append(step.message)
    lost = [question for questions in waiting.values() for question in questions]
    answers += (Answer(question.kind, len(question.lines), 0, 0) for question in lost)
    name = "sessions of one scope" if memory else "sessions of none"
    return CutOutcome(name, budget, tuple(answers), tuple(tokens), refused, sum(one > budget for one in tokens))


def _size(steps: int, sessions: int) -> int:
    return -(-steps // sessions)


def cut_rows(outcomes: Sequence[CutOutcome]) -> list[CutOutcome]:
    """Return the outcomes of all chats together, one for each policy."""
    together = dict[str, list[CutOutcome]]()
    for one in outcomes:
        together.setdefault(one.policy, []).append(one)
    return [
        CutOutcome(
            policy,
            found[0].budget,
            tuple(answer for one in found for answer in one.answers),
            tuple(tokens for one in found for tokens in one.tokens),
            sum(one.refused for one in found),
            sum(one.over for one in found),
        )
        for policy, found in together.items()
    ]
