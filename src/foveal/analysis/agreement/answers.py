"""The file of answers: one line of JSON each, behind a first line that says what they are answers to.

A line is written when its answer is there, so that a run that is killed loses nothing that was paid for. Another run with the
same file reads it and asks for the rest.
"""

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from foveal.analysis.agreement.sample import SampledCall
from foveal.analysis.agreement.trials import Answer, Trial
from foveal.stores.disk import OWNER_ONLY
from foveal.values.errors import BadInput

FORMAT = 1


class AnswersHead(msgspec.Struct, frozen=True, tag="foveal_answers"):
    """The first line: everything that must be the same for the answers to be of one experiment."""

    model: str
    endpoint: str
    """The address without passwords."""
    dialect: str
    policy: str
    """Hash of the policy and its budget."""
    reply_tokens: int
    seed: int
    format: int = FORMAT


class AnswerFile:
    """The answers of an experiment by trial, kept in a file where one is named. Any thread may add one."""

    def __init__(self, stream: BinaryIO | None, known: Iterable[Answer] = ()) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._answers = {answer.trial: answer for answer in known}

    def add(self, answer: Answer) -> None:
        """Keep an answer; on disk when this returns."""
        with self._lock:
            self._answers[answer.trial] = answer
            if self._stream:
                self._stream.write(msgspec.json.encode(answer) + b"\n")
                self._stream.flush()

    def has(self, trial: Trial) -> bool:
        """Return whether this trial need not be made any more."""
        answer = self._answers.get(trial)
        return answer is not None and answer.is_final

    def by_trial(self) -> Mapping[Trial, Answer]:
        """Return the newest answer of each trial."""
        with self._lock:
            return dict(self._answers)


@contextmanager
def opened_answers(path: Path | None, head: AnswersHead, sample: Iterable[SampledCall]) -> Generator[AnswerFile]:
    """Yield the answers of an experiment, with those that a file holds from a run before.

    Raise `BadInput` if the file is of another experiment, or of calls that are not in the sample.
    """
    if path is None:
        yield AnswerFile(None)
        return
    known, size = _read(path, head, sample) if path.exists() and path.stat().st_size else ([], 0)
    path.touch(OWNER_ONLY)
    with path.open("r+b") as stream:
        stream.truncate(size)  # a line that a killed run did not finish
        stream.seek(size)
        if not size:
            stream.write(msgspec.json.encode(head) + b"\n")
            stream.flush()
        yield AnswerFile(stream, known)


def _read(path: Path, head: AnswersHead, sample: Iterable[SampledCall]) -> tuple[list[Answer], int]:
    """Return the answers of a file, and the length of its whole lines."""
    lines = path.read_bytes().splitlines(keepends=True)
    if not lines[-1].endswith(b"\n"):
        lines.pop()
    if not lines:
        return [], 0
    try:
        kept = msgspec.json.decode(lines[0], type=AnswersHead)
    except msgspec.DecodeError:
        raise BadInput(f"{path} is not a file of answers; name another one, and nothing of this one is lost") from None
    if kept != head:
        names = [name for name in AnswersHead.__struct_fields__ if getattr(kept, name) != getattr(head, name)]
        raise BadInput(
            f"{path} holds the answers of another experiment: other {' and '.join(names)}; name another file with --output"
        )
    answers = [_answer(path, number, line) for number, line in enumerate(lines[1:], 2)]
    drawn = {call.digest for call in sample}
    if strange := {(answer.session, answer.call) for answer in answers if answer.trial.digest not in drawn}:
        session, call = sorted(strange)[0]
        raise BadInput(
            f"{path} holds answers to {len(strange)} calls that are not in this sample (such as call {call} of {session}): the "
            "recordings or --calls are others; name another file with --output"
        )
    return answers, sum(map(len, lines))


def _answer(path: Path, number: int, line: bytes) -> Answer:
    try:
        return msgspec.json.decode(line, type=Answer)
    except msgspec.DecodeError as error:
        raise BadInput(f"{path}, line {number}, is damaged ({error}); remove the line to ask again") from None
