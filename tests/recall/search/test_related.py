"""Passages on the subject of some words: what is found, and when nothing is."""

import pytest

from foveal.recall.search import find_related
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.entry import ToolCall, assistant, result, user

STORE, CHAT = MemoryStore(), "chat"
SAID = (
    "The ferry to Bergen leaves at seven from the northern pier.",
    "Our piano teacher is Mrs. Halvorsen.",
    *(f"On day {n} it was warm and the sea was calm." for n in range(60)),
)
SCATTERED = "\n".join(("ferry", *["quiet pages"] * 90, "Bergen", *["nor here"] * 90, "pier"))


@pytest.fixture(scope="module", autouse=True)
def log():
    if STORE.cards(CHAT):  # a worker may come back to this file after others
        return
    with Session(STORE, CHAT, model="gpt-5") as session:
        for text in (*SAID, SCATTERED):
            session.append(user(text))
            session.append(assistant("", ToolCall("c", "note", '{"text": "ferry Bergen pier seven"}')))
            session.append(result("c", "ferry Bergen pier seven northern"))


def found(words: str, **options):
    return [passage.text for passage in find_related(STORE, CHAT, words, **options)]


def test_a_passage_that_holds_most_of_the_rare_words_is_related():
    """Whatever common words are around them; with its place, as it was recorded."""
    assert found("When did you say that the ferry to Bergen leaves?") == [SAID[0]]
    (passage,) = find_related(STORE, CHAT, "the piano teacher")
    assert (passage.role, passage.line, passage.part, passage.text) == ("user", 1, 0, SAID[1])


@pytest.mark.parametrize("words", ["", "…", "it was warm", "the airport of Bergen and its gates", "Who wrote Hamlet?"])
def test_nothing_is_related_to_words_that_say_little_or_something_new(words):
    """One word of many, words of every other message, or none that was said."""
    assert found(words) == []


def test_words_far_apart_in_a_long_text_do_not_make_a_subject():
    """They are together by chance."""
    assert found("ferry Bergen pier") == [SAID[0]]


def test_some_entries_are_left_out():
    """Those that the prompt shows."""
    (passage,) = find_related(STORE, CHAT, "ferry to Bergen")
    seq = STORE.find(CHAT, passage.entry)[0].seq
    assert found("ferry to Bergen", without=[seq]) == []


def test_calls_and_results_of_tools_are_not_looked_at():
    """They hold all of the words, and may not be true any more."""
    assert all("seven northern" not in text for text in found("ferry Bergen pier seven northern"))
