"""Chats with questions: the evidence that counts, and what a prompt holds of it."""

from foveal.analysis.measurement.case import Sent, case_of
from foveal.analysis.measurement.outcome import Job, Looks
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.values.entry import assistant, user
from foveal_bench.baselines import full
from foveal_bench.chats import (
    Answer,
    AskedQuestion,
    Chat,
    Question,
    answered,
    by_kind,
    evidence_lines,
    mean,
    measure_chat,
    questions_of,
    window_of,
)


def chat(turns=12, repeated=()):
    """A chat in which turn `i` says that cat `i` is at home; the replies in `repeated` say it again."""
    messages = []
    for i in range(turns):
        said = f"Cat number {i} is at home."
        messages += [user(said), assistant(f"Noted: {said}" if i in repeated else "Noted.")]
    recording = Recording("chat", "test", None, "[]", tuple(map(RecordedStep, messages)))
    return case_of(recording, "chats", frozenset())


def asked(at, *evidence):
    return AskedQuestion("cats", at, evidence)


def test_evidence_counts_if_it_was_last_seen_long_ago():
    """Lines of the last twelve messages do not count, wherever they were said, nor do questions without any others."""
    case = chat(repeated=(3,))
    assert list(questions_of(case, [asked(16, 0, 2, 10)])) == [
        Question("cats", 8, ("Cat number 0 is at home.", "Cat number 1 is at home."))
    ]
    assert list(questions_of(case, [asked(19, 6), asked(22, 20)])) == []


def test_long_lines_count_by_sentence():
    """Whole paragraphs are seldom quoted; a sentence of one is evidence, in scripts without spaces too."""
    assert evidence_lines(" One.  Two. \n\n three") == ["One.  Two.", "three"]
    assert evidence_lines("Ann said “no.” Then 3.5 left! " * 9)[:2] == ["Ann said “no.”", "Then 3.5 left!"]
    assert evidence_lines("我住在北京。我有两只猫。" * 30)[:2] == ["我住在北京。", "我有两只猫。"]


def test_a_line_is_held_on_offer_or_lost():
    """In the prompt, behind a reference that the prompt names, or neither."""
    question = Question("cats", 0, ("black cat", "white cat", "grey cat"))
    sent = Sent(({"role": "user", "content": "a black cat"},), (), lambda: ("the white cat",))
    assert answered(question, sent) == Answer("cats", 3, 1, 2)
    assert answered(question, Sent(refused="too long")) == Answer("cats", 3, 0, 0)


def test_a_policy_is_asked_at_the_call_that_answers():
    """The whole history holds everything; a window of two messages holds nothing from far back."""
    one = chat()
    found = Chat(one, tuple(questions_of(one, [asked(16, 0, 2), asked(22, 0)])))
    looks = Looks(one)
    whole = measure_chat(found, Job("full", 10**6), full, looks=looks)
    assert whole.answers == (Answer("cats", 2, 2, 2), Answer("cats", 1, 1, 1))
    few = measure_chat(found, Job("window", 10**6), window_of([30] * len(one.calls)), looks=looks)
    assert [answer.held for answer in few.answers] == [0, 0]


def test_a_window_takes_no_more_tokens_than_it_is_given_and_the_newest_always():
    """As many of the newest messages as fit."""
    one = chat()
    sent = list(window_of([25] * len(one.calls))(one, 0))
    assert [len(call.messages) for call in sent[:3]] == [1, 2, 2]
    assert [len(call.messages) for call in window_of([1] * 5)(one, 0)] == [1] * 5


def test_kinds_count_the_same():
    """However many questions are of one kind."""
    answers = [Answer("a", 2, 2, 2), Answer("b", 2, 0, 1), Answer("b", 2, 0, 2), Answer("b", 1, 0, 1)]
    assert by_kind(answers, "held") == {"a": 1.0, "b": 0.0}
    assert mean(by_kind(answers, "held")) == 0.5
    assert mean(by_kind(answers, "offered")) == (1 + (0.5 + 1 + 1) / 3) / 2
