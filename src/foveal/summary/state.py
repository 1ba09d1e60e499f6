"""The state of a summary: the ledger, the relevance state and the prose. It is carried from fold to fold."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from foveal.summary import ledger as ledgers
from foveal.summary import relevance as relevances
from foveal.text.repair import quotable_part
from foveal.values.entry import Entry, Message, Opaque, RedactedThinking, Thinking
from foveal.values.shown import entry_ref


class SummaryCoverage(msgspec.Struct, frozen=True, array_like=True):
    """The range that a summary covers."""

    entries: int = 0
    tokens: int = 0
    ref: str = ""


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    ledger: ledgers.Ledger = ledgers.EMPTY
    relevance: relevances.RelevanceState = msgspec.field(default=relevances.RelevanceState(), name="digest")
    """Encoded under the key `digest`, as states that were written before it had this name."""
    covered: SummaryCoverage = SummaryCoverage()
    now: int = 0
    """The place in the log of the newest message that it covers."""
    prose: str = ""
    """Text of a model, or of the agent itself at a checkpoint; accepted, and replaced by the next."""
    author: str = ""
    """Author of the prose."""
    nonce: str = ""
    """The session's nonce, for the tag around the text."""


_decoder = msgspec.json.Decoder(Summary)


def decode_summary(state: str) -> Summary:
    """Return the summary that a fold carries; a new one if the state is empty or of another shape than ours."""
    try:
        return _decoder.decode(state) if state else Summary()
    except (msgspec.DecodeError, UnicodeEncodeError):
        return Summary()


def encode_summary(summary: Summary) -> str:
    """Return the summary as a fold carries it. Decoding it again takes a hundredth of the time of a fold."""
    return msgspec.json.encode(summary).decode()


def ledger_step(ref: str, message: Message, number: int) -> ledgers.LedgerStep:
    """Return a recorded message as input of a summary: its texts can be sent, and thinking is left out."""
    parts = (
        quotable_part(part) for part in message.parts if not isinstance(part, Thinking | RedactedThinking | Opaque)
    )
    return ledgers.LedgerStep(ref, msgspec.structs.replace(message, parts=tuple(parts)), number)


def steps_at(places: Sequence[int], found: Mapping[int, Entry]) -> list[ledgers.LedgerStep]:
    """Return the messages at these places of the log, of the entries that were found there."""
    entries = ((at, found[at]) for at in places if at in found)
    return [
        ledger_step(entry_ref(entry.id), entry.body, at) for at, entry in entries if isinstance(entry.body, Message)
    ]


def extend(summary: Summary, steps: Iterable[ledgers.LedgerStep], covered: SummaryCoverage, room: int = 0) -> Summary:
    """Return the summary with these messages folded into it. Its state has `room` for so many characters of lines."""
    listed = list(steps)
    return msgspec.structs.replace(
        summary,
        ledger=ledgers.update(summary.ledger, listed),
        relevance=relevances.update(summary.relevance, listed, room),
        covered=covered,
        now=max((step.number for step in listed), default=summary.now),
    )
