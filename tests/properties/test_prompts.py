"""What holds of every prompt, whatever happened before it."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.session.policy import BudgetTable, Policy
from foveal.stores import rows as log
from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, Move, Player
from foveal.testing.strategies import histories
from foveal.text.guard import neutralise
from foveal.values.codec import sendable
from foveal.values.entry import (
    Entry,
    File,
    Image,
    Message,
    Part,
    PartFold,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from foveal.values.errors import BadInput, OverBudget
from foveal.values.pins import collect_pins
from foveal.values.prompt import Prompt
from foveal.values.shown import entry_ref
from foveal.values.trace import TraceLine

DIALECTS = sorted(MODELS)
LIMITS = (500, 1_200, 4_000, 16_000, 64_000, 200_000)


def played(
    moves: list[Move], dialect: str, limit: int, policy: Policy | None = None
) -> Iterator[tuple[Player, Prompt]]:
    """Each prompt of a history, with the player as it stands right after it."""
    player = Player(dialect=dialect, limit=limit, tools=[READ_TOOL], policy=policy)
    for number, move in enumerate(moves):
        if policy and number % 3 == 1:
            player.session.context.remind(f"The {number}th thing to think of.")
        made = len(player.prompts)
        try:
            player.make(move)
        except BadInput as error:
            assert "nothing to send" in str(error)  # noqa: PT017 - the only complaint that a history may cause
            # The chat format leaves out a reply of thinking alone: providers would refuse it.
            sent = [
                line for line in _empty_trace(player) if line.shown != "hidden" and line.entry not in _thoughts(player)
            ]
            assert sent == [], "there was something to send"
            continue
        if len(player.prompts) > made:
            yield player, player.prompts[-1]


def _empty_trace(player: Player) -> list[TraceLine]:
    from foveal.values.trace import lines_of  # noqa: PLC0415 - only for histories that show nothing

    return list(lines_of(player.session.view.atoms))


def _thoughts(player: Player) -> set[str]:
    """The replies that hold nothing but thinking."""
    replies = [entry for entry in branch(player) if isinstance(entry.body, Message) and entry.body.role == "assistant"]
    return {entry.id for entry in replies if all(isinstance(part, Thinking) for part in entry.body.parts)}  # type: ignore[union-attr]


def branch(player: Player) -> list[Entry]:
    rows = log.branch(player.store.rows(player.name))
    return [log.to_entry(row, player.name) for row in rows]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(), limit=st.sampled_from(LIMITS))
def test_a_prompt_is_valid_and_within_its_limit(dialect: str, moves: list[Move], limit: int) -> None:
    """Every request passes its provider's rules as a whole, is within the limit, and is no larger than was said."""
    for _, prompt in played(moves, dialect, limit):
        assert oracles.problems(prompt) == []
        assert prompt.tokens <= limit
        assert oracles.recount(prompt) <= prompt.tokens


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(unsendable=True), limit=st.sampled_from(LIMITS))
def test_what_cannot_be_sent_is_left_out(dialect: str, moves: list[Move], limit: int) -> None:
    """With media that no provider takes, a prompt is valid, or too large with the sizes of what is in the way."""
    refusals: list[OverBudget] = []
    for player, prompt in played(moves, dialect, limit):
        refusals = player.refusals
        assert oracles.problems(prompt) == []
        assert oracles.recount(prompt) <= prompt.tokens <= limit
    for refusal in refusals:
        assert refusal.needed > refusal.limit
        assert refusal.parts


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(unsendable=True), limit=st.sampled_from(LIMITS))
def test_the_trace_names_every_entry_once_and_adds_up(dialect: str, moves: list[Move], limit: int) -> None:
    """Each message of the branch is in one line, lines and framing add up to the prompt, and what is not full has a reason."""
    for player, prompt in played(moves, dialect, limit):
        trace = prompt.trace
        assert trace.tokens == prompt.tokens
        assert player.session.why() == trace
        messages = [entry.id for entry in branch(player) if isinstance(entry.body, Message)]
        for line in trace.lines:
            if line.shown != "full":
                assert line.policy, line
                assert line.because, line
        # What stands beside the conversation, such as foresight, is no message.
        named = [line.entry for line in trace.lines if line.kind not in ("range", "fence")]
        assert len(set(named)) == len(named)
        ranges = [line for line in trace.lines if line.kind == "range"]
        assert len(named) + sum(line.entries for line in ranges) == len(messages)
        assert {*named, *(entry for line in ranges for entry in _covered(line, messages))} == set(messages)


def _covered(line: TraceLine, messages: list[str]) -> list[str]:
    """The messages that a range reaches over; some of them may be shown, where results came late."""
    first, last = line.entry.split("..")
    refs = [entry_ref(message) for message in messages]
    return messages[refs.index(first) : refs.index(last) + 1]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(), limit=st.sampled_from(LIMITS))
def test_the_mandatory_is_always_there_word_for_word(dialect: str, moves: list[Move], limit: int) -> None:
    """The system prompt and what is pinned are in every prompt, verbatim; so are the first and the latest request, unless they
    would take a large part of the limit: then they are cut, and never covered."""
    for player, prompt in played(moves, dialect, limit):
        entries = branch(player)
        hidden = {line.entry: line for line in prompt.trace.lines}
        sent = "\n".join(oracles.strings(prompt.request))
        for entry in _mandatory(entries):
            line = hidden.get(entry.id)
            assert line is not None, "a mandatory entry is covered"
            if _is_cut(line):
                assert isinstance(entry.body, Message)
                assert entry.body.role == "user"
                assert entry.id not in collect_pins(entries).entries
                if prompt.fold and any(
                    item.entry == entry.id for item in prompt.fold.items if isinstance(item, PartFold)
                ):
                    # Cut for this prompt, and not for one before it, which may have had less room.
                    left_out = sum(one.raw_tokens - one.tokens for one in prompt.trace.lines if _is_cut(one))
                    assert line.raw_tokens > limit // 5 or prompt.tokens + left_out > limit, line
                continue
            if "hidden" not in line.shown and isinstance(entry.body, Message):
                for text in _said(entry.body.parts):
                    # What could be taken for the frame is marked, and nothing else.
                    said = text if entry.body.role == "system" else neutralise(sendable(text))
                    assert sendable(said).rstrip() in sent


def _is_cut(line: TraceLine) -> bool:
    # A line in the place of media that the provider does not take, pinned or not.
    if set(line.policy.split("+")) - {"pin"} == {"dialect"}:
        return False
    return "reference" in line.shown or ("trimmed" in line.shown and not line.policy.startswith("arrival"))


def _mandatory(entries: list[Entry]) -> Iterator[Entry]:
    pins = collect_pins(entries).entries
    messages = [(entry, entry.body) for entry in entries if isinstance(entry.body, Message)]
    asked = [entry for entry, body in messages if body.role == "user" and any(_speaks(part) for part in body.parts)]
    yield from (*asked[:1], *asked[-1:])
    leading = True
    for entry, body in messages:
        leading = leading and body.role == "system"
        if leading or entry.id in pins:
            yield entry


def _speaks(part: Part) -> bool:
    return isinstance(part, Image | File) or (isinstance(part, Text) and bool(part.text.strip()))


def _said(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, ToolResult):
            yield from (item.text for item in part.content if isinstance(item, Text) and item.text.strip())


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(), limit=st.sampled_from((900, 2_500, 8_000)))
def test_everything_that_is_not_shown_can_be_recalled(dialect: str, moves: list[Move], limit: int) -> None:
    """Each reference that a prompt gives leads to the original, and every message of the log can be read by its id."""
    for player, prompt in played(moves, dialect, limit):
        originals = {entry.id: entry.body for entry in branch(player) if isinstance(entry.body, Message)}
        for fold_text in _stand_ins(prompt):
            for ref in re.findall(r"(?:ref|newer:) ([\w.-]+)", fold_text):
                assert player.session.recall(ref.rstrip(".")) is not None
        for entry, body in originals.items():
            for i, part in enumerate(body.parts):
                if text := _plain(part):
                    assert text in player.session.recall(f"{entry}.{i}")
        for line in prompt.trace.lines:
            if line.kind == "range":
                transcript = player.session.recall(line.entry)
                for entry in _covered(line, list(originals)):
                    assert all(_plain(part) in transcript for part in originals[entry].parts)


def _stand_ins(prompt: Prompt) -> Iterator[str]:
    for atom in prompt.atoms:
        if atom.gap:
            yield atom.gap.text
        for item in atom.items:
            for shown in item.shown:
                if shown.level in ("reference", "trimmed"):
                    match shown.part:
                        case Text(text):
                            yield text
                        case ToolResult(_, (Text(text), *_)):
                            # The note is ours; what the tool wrote around it may hold anything.
                            yield from (note for note in re.findall(r"\[[^\[\]]*; ref [^\[\]]*\]", text)[-1:])
                        case ToolCall():
                            pass
                        case _:
                            pass


def _plain(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case ToolResult(_, content):
            return next((item.text for item in content if isinstance(item, Text)), "")
        case ToolCall(_, _, arguments):
            return arguments
        case Stored(_, _, _, head):
            return head
        case _:
            return ""


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(unsendable=True), limit=st.sampled_from(LIMITS))
def test_asking_again_gives_the_same_and_records_nothing(dialect: str, moves: list[Move], limit: int) -> None:
    """A second prompt without anything appended has the same bytes, the same trace and no new entry in the log."""
    for player, prompt in played(moves, dialect, limit):
        rows = len(list(player.store.rows(player.name)))
        again = player.session.prompt(player.tools)
        assert oracles.body(again) == oracles.body(prompt)
        assert again.trace == prompt.trace
        assert again.fold is None
        assert len(list(player.store.rows(player.name))) == rows


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(), limit=st.sampled_from(LIMITS))
def test_the_same_log_gives_the_same_reminders(dialect: str, moves: list[Move], limit: int) -> None:
    """A prompt with reminders that is asked for again, also by a session that was opened anew, has the same bytes. A reminder
    of the size tells the size of the prompt that it is in."""
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0), remind=True)
    for player, prompt in played(moves, dialect, limit, policy):
        assert oracles.body(player.session.prompt(player.tools)) == oracles.body(prompt)
        player.reopen()
        again = player.session.prompt(player.tools)
        assert oracles.body(again) == oracles.body(prompt)
        assert again.trace == prompt.trace
        for used in re.findall(
            r"context (?:holds|is nearly full:) ([\d,]+) of", "\n".join(oracles.strings(prompt.request))
        ):
            assert int(used.replace(",", "")) <= prompt.tokens
