"""The summary that code writes: what it covers, how large it is, where it stands, and that it is the same every time."""

import re
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveal.analysis.inspect.stored_session import copy_session
from foveal.fit.scene import OriginalsNeeded, Scene
from foveal.project.snapshot import STATE_EVERY, ViewSnapshot
from foveal.session.policy import BudgetTable, Policy, Summarise, policy_from
from foveal.session.rebuild import entries_at
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.summary.relevance.collector import LINES_CHARS
from foveal.summary.state import decode_summary
from foveal.testing import oracles
from foveal.testing.builders import counted_ids, open_session
from foveal.values import codec
from foveal.values.entry import Fold, Message, Pin, RangeFold, ToolCall, assistant, result, system, user
from foveal.values.errors import BadPolicy
from foveal.values.shown import Atom, Gap, Size

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much)
STAGE = Summarise(share=0.25, keep=0.25)
WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima")


def text(seed: int, lines: int = 12) -> str:
    """Lines that are all different, as those of a file are."""
    rows = ((seed * 31 + n * 7) for n in range(lines))
    return "\n".join(
        f"{WORDS[r % 12]}_{r} = {WORDS[(r * 5) % 12]}({r * 13 % 997})  # {WORDS[r * 7 % 12]}" for r in rows
    )


def step(number: int, lines: int = 12) -> list[Message]:
    call = ToolCall(f"c{number}", "read_file", f'{{"path": "src/part_{number}.py"}}')
    return [assistant("", call), result(call.id, text(number, lines))]


def worked(steps: int, *, limit: int = 200_000, stage: Summarise | None = None, store: Store | None = None) -> Session:
    """A session that has read so many files, with one stage alone."""
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0), stages=(stage or STAGE,), recall=False)
    session = open_session(store or MemoryStore(), policy=policy)
    session.extend([system("Be brief."), user("Read every part.")])
    for number in range(steps):
        session.extend(step(number))
    return session


def proposed(session: Session, *, goal: int, limit: int = 4_000, stage: Summarise | None = None) -> list[RangeFold]:
    """What the stage proposes for this view, its questions answered."""
    scene = Scene(session.view, limit, Size(goal, 10**9, 10**9))
    folds: list[RangeFold] = []
    for batch in (stage or STAGE)(scene):
        if isinstance(batch, OriginalsNeeded):
            scene.originals.update(entries_at(session._journal.store, session.name, batch.seqs))
        else:
            folds.extend(batch)
    return folds


def place(session: Session, entry: str) -> int:
    found = session.view.place(entry)
    assert found is not None
    return found


def gaps(atoms: Sequence[Atom]) -> list[Gap]:
    return [atom.gap for atom in atoms if atom.gap]


def test_the_oldest_are_covered_until_the_goal_is_reached() -> None:
    """From the first that may go, and no further than the goal needs: a deeper goal takes more."""
    session = worked(20)
    whole = session.view.size.tokens
    (little,) = proposed(session, goal=whole - 500)
    (much,) = proposed(session, goal=whole // 2)
    places = [(place(session, fold.first), place(session, fold.last)) for fold in (little, much)]
    assert places[0][0] == places[1][0] == 2
    assert places[0][1] < places[1][1] < len(session.view.atoms) - 1
    for fold, goal in ((little, whole - 500), (much, whole // 2)):
        view = session.view.copy()
        view.transcript.apply([fold])
        assert view.size.tokens <= goal


def test_the_newest_stay_though_the_goal_is_out_of_reach() -> None:
    """What `keep` holds back is not covered, whatever is wanted."""
    session = worked(20)
    (fold,) = proposed(session, goal=1, stage=Summarise(share=0.1, keep=0.25))
    left = session.view.atoms[place(session, fold.last) + 1 :]
    assert 0 < sum(atom.size.tokens for atom in left) <= 1_000


def test_messages_can_be_kept() -> None:
    """The protected tail may be counted in messages; an atom of which one must stay, stays whole."""
    session = worked(20)
    (fold,) = proposed(session, goal=1, limit=400, stage=Summarise(keep_messages=9))
    left = session.view.atoms[place(session, fold.last) + 1 :]
    assert sum(len(atom.items) for atom in left) == 10


def test_turns_can_be_kept() -> None:
    """The protected tail may be counted in turns, each from the user's word on."""
    session = worked(10)
    for request in ("second", "third"):
        session.extend([assistant("Done."), user(request), *step(10), *step(11)])
    (fold,) = proposed(session, goal=1, limit=400, stage=Summarise(keep_turns=2))
    left = session.view.atoms[place(session, fold.last) + 1 :]
    assert left[0].items[0].shown[0].part == user("second").parts[0]


def test_it_takes_no_more_than_its_share_and_half_of_what_goes() -> None:
    """A summary that saves nothing moves the prefix for nothing."""
    session = worked(20)
    (fold,) = proposed(session, goal=1)
    assert fold.tokens <= 4_000 * STAGE.share
    few = worked(20)
    (small,) = proposed(few, goal=few.view.size.tokens - 1, stage=Summarise(share=0.9, keep=0.0))
    covered = few.view.atoms[place(few, small.first) : place(few, small.last) + 1]
    assert small.tokens <= sum(atom.size.tokens for atom in covered) // 2


def test_there_is_one_summary_of_a_session() -> None:
    """However often it is folded, one gap holds the summary, and it speaks of everything that is covered."""
    session = worked(0, limit=3_000)
    folds = 0
    for number in range(60):
        session.extend(step(number))
        prompt = session.prompt()
        folds += prompt.fold is not None
        assert sum(gap.level == "summary" for gap in gaps(prompt.atoms)) <= 1
    assert folds >= 3
    (gap,) = gaps(session.view.atoms)
    assert f"[Summary of {gap.entries:,} earlier messages ({gap.raw_tokens:,} tokens)" in gap.text
    shown = sum(len(atom.items) for atom in session.view.atoms)
    assert gap.entries + shown == 2 + 60 * 2


def test_the_text_stands_in_the_largest_run_and_a_line_in_every_other() -> None:
    """Where a pin splits what is covered, it is said once; the other gaps are one line each, with their reference."""
    session = worked(16)
    pinned = [session.view.atoms[at].items[1].id for at in (4, 7)]
    for entry in pinned:
        session.append(Pin(entry))
    folds = proposed(session, goal=1)
    assert [fold.level for fold in folds] == ["covered", "covered", "summary"]
    assert all("\n" not in fold.text for fold in folds[:2])
    session.view.transcript.apply(folds)
    sizes = {gap.level: gap.raw_tokens for gap in gaps(session.view.atoms)}
    assert sizes["summary"] == max(gap.raw_tokens for gap in gaps(session.view.atoms))
    assert all(session.view.place(entry) is not None for entry in pinned)


def test_a_summary_that_moves_on_leaves_one_line_behind() -> None:
    """When a newer run is larger, the text goes there, and what it was said in before becomes a line."""
    session = worked(8)
    session.compaction.fold()
    assert [gap.level for gap in gaps(session.view.atoms)] == ["summary"]
    session.append(Pin(session.append(user("Keep this.")).id))
    for number in range(8, 40):
        session.extend(step(number))
    session.compaction.fold()
    assert [gap.level for gap in gaps(session.view.atoms)] == ["covered", "summary"]
    assert "part_0.py" in gaps(session.view.atoms)[1].text


def test_nothing_is_proposed_where_nothing_new_would_be_covered() -> None:
    """A view whose oldest part is a summary already is left alone: no loop."""
    session = worked(12)
    session.view.transcript.apply(proposed(session, goal=1))
    assert proposed(session, goal=1) == []


def test_the_state_is_kept_with_every_sixteenth_fold() -> None:
    """In between it follows from the messages that are covered since; the log holds each of them once."""
    session = worked(0, limit=2_500)
    while session.view.facts.folds < STATE_EVERY + 3:
        session.extend(step(session.view.facts.calls))
        session.prompt()
    bodies = [codec.decode(row.payload) for row in session._journal.store.rows(session.name)]
    folds = [body for body in bodies if isinstance(body, Fold)]
    assert [i for i, fold in enumerate(folds, 1) if fold.keeps_state] == [STATE_EVERY]
    assert not any(getattr(item, "state", "") for fold in folds for item in fold.items)
    assert len(session.view.facts.summary.since) == 3
    for with_state, state in ((True, session.view.facts.summary.state), (False, "")):
        frozen = ViewSnapshot.of(session.view, with_state=with_state).encode()
        found = ViewSnapshot.decode(frozen or b"")
        assert found
        assert found.facts.summary.state == state


def test_the_names_of_what_is_covered_are_carried() -> None:
    """Files that were read long ago are still named after many folds."""
    session = worked(0, limit=3_000)
    for number in range(50):
        session.extend(step(number))
        session.prompt()
    assert "part_0.py" in gaps(session.view.atoms)[0].text


def again(session: Session) -> Session:
    """The same session from a store that holds the log alone."""
    store = MemoryStore()
    copy_session(session._journal.store, store, session.name)
    assert store.snapshot(session.name) is None
    return open_session(store, policy=session._journal.setup.policy, new_id=counted_ids("again"))


@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=12, max_size=30),
    pins=st.sets(st.integers(0, 20), max_size=3),
    cut=st.integers(1, 29),
    limit=st.sampled_from((2_000, 3_500)),
)
def test_the_same_bytes_from_the_log_alone(sizes: list[int], pins: set[int], cut: int, limit: int) -> None:
    """A session that is rebuilt from its log, anywhere on the way, goes on with the very prompts of the one that lived."""
    lived = worked(0, limit=limit)
    rebuilt: Session | None = None
    for number, lines in enumerate(sizes):
        for session in filter(None, (lived, rebuilt)):
            for i, body in enumerate(step(number, lines)):
                entry = session.append(body, id=f"entry-{number}-{i}")
                if number in pins and i and lines < 8:
                    session.append(Pin(entry.id))
        prompts = [session.prompt() for session in filter(None, (lived, rebuilt))]
        assert len({oracles.body(prompt) for prompt in prompts}) == 1
        assert all(prompt.tokens <= limit for prompt in prompts)
        if number == cut:
            rebuilt = again(lived)


@pytest.mark.parametrize("every", [1, 3])
def test_the_same_bytes_after_reopening(every: int) -> None:
    """Closed and opened again and again, with a snapshot or without one, or never closed: the same prompts."""
    store = MemoryStore()
    lived, opened = worked(0, limit=2_500), worked(0, limit=2_500, store=store)
    assert lived.prompt() == opened.prompt()  # from the first prompt on a session has its nonce
    for number in range(40):
        if number % every == 0:
            opened.close()
            opened = open_session(store, policy=opened._journal.setup.policy, new_id=counted_ids(f"again {number}"))
        bodies = []
        for session in (lived, opened):
            for i, body in enumerate(step(number)):
                session.append(body, id=f"entry-{number}-{i}")
            bodies.append(oracles.body(session.prompt()))
        assert bodies[0] == bodies[1]
    assert lived.view.facts.folds >= 3
    assert store.snapshot("test") is not None


@pytest.mark.parametrize("limit", [20_000, 60_000])
def test_the_state_has_room_for_as_much_as_a_prompt(limit: int) -> None:
    """At a larger limit more of what is covered stays at hand, with the room in the log: the same bytes from the log alone."""
    lived = worked(0, limit=limit, stage=Summarise())
    while lived.view.facts.folds < 3:
        lived.extend(step(lived.view.facts.calls, 60))
        lived.prompt()
    rebuilt = again(lived)
    assert [bool(room) for room in rebuilt.view.facts.summary.all_rooms] == [limit == 60_000] * 3
    for session in (lived, rebuilt):
        for number in range(200, 250):
            for i, body in enumerate(step(number, 60)):
                session.append(body, id=f"entry-{number}-{i}")
        assert session.prompt().fold
    assert lived.view.facts.summary.state == rebuilt.view.facts.summary.state
    kept = decode_summary(lived.view.facts.summary.state).relevance
    assert (sum(len(line.text) + 24 for line in kept.lines) > LINES_CHARS) is (limit == 60_000)


def test_references_in_the_summary_lead_back() -> None:
    """Each reference that the text names, that of the whole range included, can be recalled."""
    session = worked(30, limit=3_000)
    session.prompt()
    refs = set(re.findall(r"\bref ([^\s;\])]+)", gaps(session.view.atoms)[0].text))
    assert len(refs) > 1
    assert all(session.recall(ref) for ref in refs)


def test_a_fold_in_the_log_is_what_was_planned_without_its_state() -> None:
    """What is read back shows the same text."""
    session = worked(30, limit=3_000)
    fold = session.prompt().fold
    assert fold
    kept = again(session)
    assert [gap.text for gap in gaps(kept.view.atoms)] == [gap.text for gap in gaps(session.view.atoms)]
    assert kept.view.facts.summary.state == ""
    assert kept.view.facts.summary.unread


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"share": 1.0}, "summarise.share is 1.0"),
        ({"keep": -0.1}, "summarise.keep is -0.1"),
        ({"keep_turns": -1}, "summarise.keep_turns is -1"),
        ({"keep_messages": -2}, "summarise.keep_messages is -2"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(wrong: dict[str, float], said: str) -> None:
    """Read from a file, a wrong value is an error that names it."""
    with pytest.raises(BadPolicy, match=said):
        policy_from({"stages": [{"fold": "summarise", **wrong}]})


def test_it_is_data() -> None:
    """Written to a file and read again, it is the same."""
    stage = Summarise(share=0.1, keep_turns=2)
    assert policy_from(msgspec.to_builtins(Policy(stages=(stage,)))).stages == (stage,)


def test_a_fold_has_its_reason_and_its_price() -> None:
    """What was too much, what it was folded to, and what is billed anew."""
    session = worked(30, limit=3_000)
    fold = session.prompt().fold
    assert isinstance(fold, Fold)
    assert re.fullmatch(r"[\d,]+ tokens of messages, [\d,]+ allowed", fold.reason)
    assert fold.after == session.view.size.tokens < fold.before
    assert 0 < fold.rebilled <= fold.after
