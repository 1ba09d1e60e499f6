"""The conversation of a chat as its log has it: the messages of the user, and the exchanges that are shown again."""

from collections.abc import Iterable
from typing import NamedTuple

from foveal.agent.model_step import LAST_STEP
from foveal.agent.run_marks import MessageQueued, ModelNudged, mark_in
from foveal.cli.chat_names import without_files
from foveal.text.display import one_line
from foveal.values.entry import ATTACHED, Entry, Message, Note, Stored, Text

LAST_WORDS = f"[{LAST_STEP}]"
"""The words for the last step where they are in the user's place: no mark comes before them."""
_TEXT_CHARS = 70


class PastExchange(NamedTuple):
    """A message of the user, and the newest words of the answer to it; empty words if there are none."""

    said: str
    answer: str


class ChatPast(NamedTuple):
    """The last exchanges of a conversation, and the number of messages before them."""

    exchanges: tuple[PastExchange, ...]
    earlier: int


def said_messages(branch: Iterable[Entry]) -> list[Entry]:
    """Return the messages of the user, without files that came with them and without words of the run in the user's place.

    Those come directly behind the mark that the model is reminded; words beside the prompt leave only the mark. Every message
    of the user comes behind another mark.
    """
    found: list[Entry] = []
    own = {LAST_WORDS}
    is_reminder = False
    for entry in branch:
        match entry.body:
            case Note() as note:
                mark = mark_in(note)
                is_reminder = isinstance(mark, ModelNudged)
                own |= {mark.text} if isinstance(mark, MessageQueued) and mark.is_own else set()
            case Message(role="user") if entry.author != ATTACHED:
                found += [] if is_reminder or message_text(entry) in own else [entry]
            case _:
                is_reminder = False
    return found


def past_of(branch: list[Entry], most: int) -> ChatPast:
    """Return the last exchanges of a conversation, at most so many."""
    said = {one.id for one in said_messages(branch)}
    exchanges: list[PastExchange] = []
    counts: list[int] = []
    for entry in branch:
        text = message_text(entry)
        if entry.id in said:
            exchanges.append(PastExchange(without_files(text), ""))
            counts.append(1)
        elif exchanges and isinstance(entry.body, Message) and entry.body.role == "assistant":
            exchanges[-1] = PastExchange(exchanges[-1].said, text or exchanges[-1].answer)
            counts[-1] += 1
    return ChatPast(tuple(exchanges[-most:]), sum(counts[:-most]))


def message_text(entry: Entry) -> str:
    """Return the words of a message; the beginning of words that are too large for the log."""
    parts = entry.body.parts if isinstance(entry.body, Message) else ()
    shown = (one.text if isinstance(one, Text) else one.head if isinstance(one, Stored) else "" for one in parts)
    return "\n".join(filter(None, shown))


def message_line(entry: Entry) -> str:
    """Return the words of a message on one line, without the files that came with it."""
    return one_line(without_files(message_text(entry)), _TEXT_CHARS)
