"""The data of a page, without a browser."""

import msgspec
import pytest

from foveal.analysis import cost, history
from foveal.analysis.inspect.stored_session import stored_messages
from foveal.analysis.replay.replay import replay
from foveal.context.fences import PLACEMENTS, FenceKind
from foveal.models.counters import counter_for
from foveal.session.options import Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores import MemoryStore
from foveal.values.entry import ToolCall, assistant, result, system, user
from foveal.viewer.builder import recorded_page, stored_page
from foveal.viewer.document import encoded, overview_row, shown_text
from foveal.viewer.session_log import MOST_PARTS

from .conftest import attacking, looking, recording, run_options


def lines_of(run, at):
    """The numbers of a call's lines, put together as the page does it."""
    found = []
    for call in run.calls[: at + 1]:
        found = [*found[: call.kept], *call.lines]
    return found


@pytest.fixture(scope="module")
def kept():
    """The same session in a store, and its page's data."""
    store = MemoryStore()
    replay(recording(*looking()), policy=Policy(budget=BudgetTable(limit=4_000, reserve=0)), store=store)
    return store, stored_page(store, "made", source="agent.db")


def test_a_page_tells_what_why_tells(kept):
    """Every line of every call has the place, the level, the tokens and the reason of the trace."""
    store, page = kept
    past, run = history(store, "made"), page.runs[0]
    assert len(run.calls) == len(past.calls)
    for at, call in enumerate(run.calls):
        trace = past.trace(call.call)
        shown = [run.lines[number] for number in lines_of(run, at)]
        assert [(line.tokens, line.raw, page.words[line.shown], page.words[line.because]) for line in shown] == [
            (line.tokens, line.raw_tokens, line.shown, line.because) for line in trace.lines
        ]
        assert sum(line.tokens for line in shown) + call.tools + call.framing == trace.tokens == call.tokens


def test_the_bill_of_a_page_is_that_of_cost(kept):
    """Calls, folds and sums are those of `foveal why --cost`."""
    store, page = kept
    known, run = cost(store, "made"), page.runs[0]
    assert (run.folds, run.total) == (known.folds, known.total)
    assert [call.sent for call in run.calls] == [call.sent for call in known.per_call]
    assert len(run.folds) > 1


def test_the_shares_of_a_line_are_all_of_its_tokens(folded):
    """Bands add up: no token of a line is without a kind and a level."""
    lines = [line for run in folded.runs for line in run.lines]
    assert all(sum(share.tokens for share in line.shares) == line.tokens for line in lines)
    kinds = {folded.words[share.kind] for line in lines for share in line.shares}
    assert kinds >= {"system", "user", "tool call", "tool result", "summary"}


def test_a_range_names_the_messages_that_it_covers(folded):
    """Every message that has come is shown by a line of its own or lies in a range, and no range reaches past the newest."""
    run = folded.runs[0]
    for at, call in enumerate(run.calls):
        lines = [run.lines[number] for number in lines_of(run, at)]
        own = {line.first for line in lines if line.kind == "entry"}
        covered = {place for line in lines if line.kind == "range" for place in range(line.first, line.last + 1)}
        come = {
            place for place, entry in enumerate(folded.entries) if entry.call <= call.call and entry.role != "assistant"
        }
        assert come <= own | covered
        assert max(own | covered) < len(folded.entries)


def test_messages_have_the_same_place_under_every_policy(folded):
    """Two policies can be compared message by message: ids differ, places do not."""
    assert len(folded.runs) == 2
    assert folded.runs[0].folds != folded.runs[1].folds
    whole = [{line.first for line in run.lines if line.kind == "entry" and line.parts is None} for run in folded.runs]
    everything = set(range(len(folded.entries) - 1))  # the last reply answers the last prompt
    assert whole == [everything, everything]  # each was shown whole at first, with the text of the original


def test_a_text_is_kept_once(folded):
    """A result that forty calls show is in the page once."""
    assert len(set(folded.texts)) == len(folded.texts)
    assert sum("line 7 of file 3\n" in text for text in folded.texts) <= 3  # itself, a shorter form, a summary


def test_a_recording_has_no_next_call_and_a_stored_session_has(kept, folded):
    """The next call of a session that goes on is shown; a recording is over."""
    assert all(call.is_answered for call in folded.runs[0].calls)
    assert [call.is_answered for call in kept[1].runs[0].calls][-2:] == [True, False]


def test_recalls_are_named_with_their_call():
    """A message that the model fetched again knows the call that asked for it."""
    store, policy = MemoryStore(), Policy(budget=BudgetTable(limit=3_000, reserve=0))
    with Session(store, "made", model="gpt-5", policy=policy) as session:
        session.append(user("Look."))
        wanted = ""
        for i in range(10):
            session.prompt()
            made = session.extend(
                [assistant("", ToolCall(f"c{i}", "read", f'{{"path": "{i}"}}')), result(f"c{i}", f"row {i}\n" * 300)]
            )
            wanted = wanted or made[1].id[:10]
        session.prompt()
        session.append(assistant("", ToolCall("again", "recall_context", f'{{"ref": "{wanted}"}}')))
    (recall,) = stored_page(store, "made").recalls
    assert (recall.call, recall.first, recall.last) == (11, 2, 2)


@pytest.mark.parametrize("arguments", ["", "[]", '{"ref": 3}', '{"ref": "nothing..else"}', "{" * 5_000])
def test_a_recall_of_nothing_is_no_recall(arguments):
    """The arguments of a call are data: bad ones name no message."""
    page = recorded_page(
        recording(
            user("Go."), assistant("", ToolCall("a", "recall_context", arguments)), result("a", "no"), assistant("So.")
        ),
        [run_options(8_000)],
    )
    assert page.recalls == ()


def test_a_budget_in_another_models_tokens_refuses_nothing():
    """A replay that counts by another model's vocabulary was sent as the replay says, and so says its page."""
    made = msgspec.structs.replace(recording(*looking()), model="claude-opus-4-5")
    options = msgspec.structs.replace(run_options(4_000), counter=counter_for("gpt-5"))
    total = recorded_page(made, [options]).runs[0].total
    assert (total.calls, total.refused) == (25, 0)


def test_long_texts_are_cut_with_a_note():
    """The note says how much is missing, and nothing else is lost."""
    text = "a" * 700 + "b" * 300
    cut = shown_text(text, 300)
    assert cut.startswith("a" * 200)
    assert cut.endswith("b" * 100)
    assert "700 of 1,000 characters are not in this page" in cut
    assert shown_text(text, 1_000) == text


def test_hostile_content_is_bounded_and_harmless():
    """Lines of megabytes, ten thousand parts, directions and halves of characters make a small and valid page."""
    page = recorded_page(recording(*attacking(), name="bad\u202ename"), [run_options(60_000)])
    many = next(entry for entry in page.entries if entry.left_out)
    assert (len(many.parts), many.left_out) == (MOST_PARTS, 10_000 - MOST_PARTS)
    large = page.entries[3].parts[0].text
    assert "5,000,000 bytes, by its beginning and end" in page.texts[large]
    data = encoded(page, 24_000)
    assert len(data) < 2_000_000
    known = msgspec.json.decode(data)
    assert known["name"] == "bad⟨U+202E⟩name"
    text = data.decode()
    assert not any(mark in text for mark in ("\u202e", "\\u202e", "\x1b", "\\u001b", "\ud83d"))


def test_a_row_of_the_list_has_the_sums_of_the_session(folded):
    """The row of a session holds the sums of its first policy."""
    row, total = overview_row(folded), folded.runs[0].total
    assert (row.calls, row.folds) == (25, len(folded.runs[0].folds))
    assert row.sent_tokens == total.sent_tokens
    assert row.sent_usd == (total.sent_usd or 0) + (total.output_usd or 0) > (total.sent_usd or 0)


def test_a_stored_session_can_be_compared_with_another_policy(kept):
    """Its messages are replayed under the other policy and have the same places."""
    store, alone = kept
    page = stored_page(store, "made", compare=[run_options(9_000)])
    assert [run.name for run in page.runs] == ["as it was sent", "9,000 tokens"]
    assert page.entries == alone.entries
    assert page.runs[0] == alone.runs[0]
    first, other = page.runs
    assert other.total.calls == first.total.calls
    assert other.total.sent_tokens > first.total.sent_tokens


def test_texts_beside_the_conversation_are_where_they_were_sent():
    """Fences of every placement stand in the page's prompt between the same messages as in the request."""
    kinds = tuple(
        FenceKind(
            place.replace("_", "-"),
            placement=place,
            lifetime="session",
            role="system" if place == "after_system" else "user",
        )
        for place in PLACEMENTS
    )
    store, policy = MemoryStore(), Policy(budget=BudgetTable(limit=3_000, reserve=0), fences=kinds)
    with Session(store, "made", model=Model("gpt-5", "openai_chat"), policy=policy) as session:
        session.extend([system("Be brief."), user("Look.")])
        for i in range(8):
            if i == 2:
                for kind in kinds:
                    session.context.inject(kind.name, f"fence at {kind.placement}")
            if i == 5:
                session.append(user("Look again."))
            session.prompt()
            session.extend(
                [assistant("", ToolCall(f"c{i}", "read", f'{{"path": "{i}"}}')), result(f"c{i}", f"row {i}\n" * 300)]
            )
        session.prompt()
    page = stored_page(store, "made")
    run = page.runs[0]
    for at, call in enumerate(run.calls):
        _, sent = stored_messages(store, "made", call.call if call.is_answered else None)
        shown = [run.lines[number] for number in lines_of(run, at)]
        told = [message.block.text if message.block else "message" for message in sent]
        assert [page.texts[line.parts[0].text] if line.first < 0 else "message" for line in shown] == told
        assert len(told) - told.count("message") == (len(PLACEMENTS) if call.call > 2 else 0)
