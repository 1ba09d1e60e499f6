"""Chats with questions: which share of the evidence stands in the prompt when a question is asked?

Each question of a chat names the earlier turns of the user that hold its evidence. A line of them counts if it was last seen, in
anybody's words, more than `FAR` messages before the question; long lines count by sentence. A line is *held* if the prompt of
that call has it verbatim, and *on offer* if that, or an original that the prompt names by reference, has it.
"""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from foveal.analysis.measurement.case import Case, Runner, Sent, case_of, text_of
from foveal.analysis.measurement.grounding import FAR, text_seen
from foveal.analysis.measurement.outcome import Job, Looks, PolicyOutcome, measure
from foveal.analysis.measurement.suite import session_hash
from foveal.analysis.recordings import read

AS_MANY = "window, as many tokens"
"""The newest messages that come to no more tokens than Foveal sent in the same call."""

_LONG_LINE = 240
"""Longer lines are paragraphs: each of their sentences is looked for by itself."""

_SENTENCE = re.compile(r".+?(?:[.!?。！？]+[\"'”’)\]]*(?=\s|\Z)|[。！？]|\Z)\s*", re.DOTALL)


class AskedQuestion(msgspec.Struct, frozen=True):
    """A question as the set records it, with the places of messages."""

    category: str
    ask_index: int
    evidence: tuple[int, ...]


class _RecordedChat(msgspec.Struct, frozen=True):
    id: str
    qa: tuple[AskedQuestion, ...]


class Question(msgspec.Struct, frozen=True):
    """One question of a chat: what it is about, the call that answers it, and its evidence from far back."""

    kind: str
    call: int
    """The number of the model call, from 0."""
    lines: tuple[str, ...]


class Chat(msgspec.Struct, frozen=True):
    """One recorded chat and its questions; those without evidence from far back are left out."""

    case: Case
    questions: tuple[Question, ...]
    asked: tuple[AskedQuestion, ...] = ()
    """All of them as the set records them."""


class Answer(msgspec.Struct, frozen=True):
    """The evidence of one question: how many lines, how many of them held, and how many held or on offer."""

    kind: str
    lines: int
    held: int
    offered: int


class ChatOutcome(msgspec.Struct, frozen=True):
    """One policy on one chat."""

    outcome: PolicyOutcome
    answers: tuple[Answer, ...]


def load_chats(file: Path, *, training: bool) -> list[Chat]:
    """Return the chats of one half of the set. Nothing is ever trained or chosen on the other half."""
    with gzip.open(file) as lines:
        asked = {found.id: found.qa for found in map(msgspec.json.Decoder(_RecordedChat).decode, lines)}
    chosen = [one for one in read(file) if (session_hash(one.id)[0] >= 128) is training]
    chats = [(case_of(one, "chats", frozenset()), asked[one.id]) for one in chosen]
    return [Chat(case, tuple(questions_of(case, questions)), questions) for case, questions in chats]


def questions_of(case: Case, asked: Iterable[AskedQuestion]) -> Iterator[Question]:
    """Yield the questions of a chat that have evidence from far back."""
    texts = [text_seen(step.message) for step in case.recording.steps]
    replies = [step.message.role == "assistant" for step in case.recording.steps]
    for one in asked:
        at = one.ask_index
        recent = "\n".join(texts[max(0, at - FAR) : at + 1])
        lines = dict.fromkeys(line for place in one.evidence for line in evidence_lines(texts[place]))
        if far := tuple(line for line in lines if line not in recent):
            yield Question(one.category, sum(replies[:at]), far)


def evidence_lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty, the long ones by sentence."""
    lines = (line.strip() for line in text.splitlines())
    pieces = (piece for line in lines for piece in ([line] if len(line) <= _LONG_LINE else _SENTENCE.findall(line)))
    return [piece.strip() for piece in pieces if piece.strip()]


def answered(question: Question, sent: Sent) -> Answer:
    """Return how much of a question's evidence a prompt holds and offers."""
    shown = "" if sent.refused else "\n".join(map(text_of, sent.messages))
    missing = [line for line in question.lines if line not in shown]
    offered = "\n".join(sent.offered()) if missing else ""
    absent = sum(line not in offered for line in missing)
    total = len(question.lines)
    return Answer(question.kind, total, total - len(missing), total - absent)


def measure_chat(chat: Chat, job: Job, runner: Runner, *, looks: Looks) -> ChatOutcome:
    """Run a policy over a chat: its bill, and the evidence that its prompts hold when the questions are asked."""
    answers = list[Answer]()
    waiting = dict[int, list[Question]]()
    for question in chat.questions:
        waiting.setdefault(question.call, []).append(question)

    def watched(case: Case, budget: int) -> Iterator[Sent]:
        for number, sent in enumerate(runner(case, budget)):
            answers.extend(answered(question, sent) for question in waiting.get(number, ()))
            yield sent

    outcome = measure(chat.case, job, watched, looks=looks)
    lost = chat.questions[len(answers) :]  # the policy gave up before they were asked
    answers.extend(Answer(question.kind, len(question.lines), 0, 0) for question in lost)
    return ChatOutcome(outcome, tuple(answers))


def window_of(tokens: Sequence[int]) -> Runner:
    """Return a runner that sends the newest messages of each call, in at most so many tokens; the newest always."""

    def run(case: Case, _budget: int) -> Iterator[Sent]:
        for place, most in zip(case.calls, tokens, strict=False):
            first, left = place, most - case.fixed
            while first and (left >= case.sizes[first - 1] or first == place):
                first -= 1
                left -= case.sizes[first]
            yield Sent(case.messages[first:place], case.tools)

    return run


def by_kind(answers: Iterable[Answer], what: str) -> dict[str, float]:
    """Return, for each kind of question, the mean share of evidence that is held, or offered."""
    shares = dict[str, list[float]]()
    for answer in answers:
        shares.setdefault(answer.kind, []).append(getattr(answer, what) / answer.lines)
    return {kind: sum(found) / len(found) for kind, found in sorted(shares.items())}


def mean(shares: Mapping[str, float]) -> float:
    """Return the mean over kinds: a kind with many questions counts no more than another."""
    return sum(shares.values()) / len(shares) if shares else 1.0
