"""Chats cut into sessions: the evidence of earlier sessions, and what prompts hold of it."""

from foveal.analysis.measurement.case import case_of
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.values.entry import assistant, user
from foveal_bench.chat_sessions import cut_questions, cut_rows, measure_cut
from foveal_bench.chats import Answer, AskedQuestion, Chat, Question


def chat(*asked: AskedQuestion) -> Chat:
    """Twenty turns, each about a cat of its own: sessions of four messages, if they are cut into ten."""
    messages = [one for i in range(20) for one in (user(f"Cat number {i} is at home."), assistant("Noted."))]
    recording = Recording("chat", "test", None, "[]", tuple(map(RecordedStep, messages)))
    return Chat(case_of(recording, "chats", frozenset()), (), asked)


def test_evidence_counts_if_it_was_said_in_an_earlier_session():
    """Not what was said in the session in which the question is asked, and no question without any other."""
    found = list(cut_questions(chat(AskedQuestion("cats", 18, (0, 14, 16)), AskedQuestion("cats", 2, (0,)))))
    assert found == [(18, Question("cats", 0, ("Cat number 0 is at home.", "Cat number 7 is at home.")))]


def test_sessions_of_one_scope_hold_it_and_others_do_not():
    """The same messages and the same budget: memory makes the difference."""
    cut = chat(AskedQuestion("cats", 18, (0, 14)), AskedQuestion("cats", 38, (0,)))
    without, with_ = (measure_cut(cut, 8_000, memory=memory) for memory in (False, True))
    assert without.answers == (Answer("cats", 2, 0, 0), Answer("cats", 1, 0, 0))
    assert with_.answers == (Answer("cats", 2, 2, 2), Answer("cats", 1, 1, 1))
    assert len(without.tokens) == len(with_.tokens) == 20
    assert (with_.refused, with_.over) == (0, 0)


def test_outcomes_of_several_chats_are_put_together():
    """One row a policy, with the answers and prompts of all chats."""
    cut = chat(AskedQuestion("cats", 18, (0,)))
    rows = cut_rows([measure_cut(cut, 8_000, memory=memory) for memory in (False, True, False)])
    assert [(row.policy, len(row.answers), len(row.tokens)) for row in rows] == [
        ("sessions of none", 2, 40),
        ("sessions of one scope", 1, 20),
    ]
