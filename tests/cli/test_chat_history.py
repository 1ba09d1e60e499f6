"""The conversation that a chat shows again: whose words are the user's, and which answer is below them."""

import pytest

from foveal.agent.model_step import LAST_STEP
from foveal.agent.run_marks import MessageQueued, ModelNudged, QueueTaken, StatusSet, to_note
from foveal.cli.chat_history import PastExchange, message_text, past_of, said_messages
from foveal.values.entry import Entry, PromptContext, assistant, user

LAST = user(f"[{LAST_STEP}]")
TODOS = (to_note(ModelNudged("todos")), user("[You stopped.]"))
BESIDE = (to_note(ModelNudged("todos")), PromptContext(()))
ENDED = "The detached run s/a has ended."
DETACHED = (
    to_note(MessageQueued(ENDED, is_steering=True, is_own=True)),
    to_note(QueueTaken(steering=1)),
    user(ENDED),
)


def branch(*bodies):
    """The log of a first message, its answer, these entries, and another message with its answer."""
    behind = (assistant("Two."), to_note(StatusSet("completed", 1, "a")), user("Second."), assistant("Three."))
    logged = (user("First."), assistant("One."), *bodies, *behind)
    return [Entry(f"e{place}", None, 0, "agent", body) for place, body in enumerate(logged)]


@pytest.mark.parametrize(
    "words",
    [BESIDE, TODOS, (*TODOS, LAST), (LAST,), (*BESIDE, *BESIDE), DETACHED],
    ids=["beside the prompt", "in the user's place", "two of them", "the last step", "beside it twice", "detached run"],
)
def test_words_of_the_run_take_no_message_of_the_user_away(words):
    """Wherever a run has put its words to the model, the messages are those of the user, each with its own answer."""
    log = branch(*words)
    assert [message_text(one) for one in said_messages(log)] == ["First.", "Second."]
    assert past_of(log, 2).exchanges == (PastExchange("First.", "Two."), PastExchange("Second.", "Three."))
