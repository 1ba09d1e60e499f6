"""The verb *fit*, in ten examples: a view that is too large in, one fold out.

Tokens are words here, and a stage is any callable that proposes folds, so that each case can be read without knowing the
stages of the default policy.
"""

from collections.abc import Iterable, Mapping

import msgspec
import pytest

from foveal.fit.fit import fit, run_fit
from foveal.fit.scene import OriginalsNeeded, Proposal, Scene, Stage
from foveal.project.measure import Measure
from foveal.project.projection import Projection
from foveal.project.view import View
from foveal.values.entry import (
    Body,
    Entry,
    Fold,
    Message,
    PartFold,
    RangeFold,
    Text,
    Thinking,
    ToolCall,
    assistant,
    result,
    system,
    user,
)
from foveal.values.errors import OverBudget
from foveal.values.pins import Pins
from foveal.values.shown import Size

PLAIN = Projection("test", Measure(lambda text: len(text.split()), lambda _image: 1_600), omit=lambda _part, _model: "")
WORDS = "word " * 100


def entries(*bodies: Body) -> dict[int, Entry]:
    """A branch whose entries are called e1, e2, …"""
    return {n: Entry(f"e{n}", f"e{n - 1}", n, "agent", body) for n, body in enumerate(bodies, 1)}


def view_of(*bodies: Body, projection: Projection = PLAIN) -> View:
    view = View(projection)
    for seq, entry in entries(*bodies).items():
        view.feed(seq, entry)
    return view


def pair(number: int, text: str = WORDS) -> tuple[Message, Message]:
    """A call and its result, of about a hundred words."""
    return assistant("", ToolCall(f"c{number}", "read", "{}")), result(f"c{number}", text)


FIVE_READS = (user("Go."), *pair(1), *pair(2), *pair(3), *pair(4), *pair(5))
"""About 600 words: a request, e1, and five calls with results at e3, e5, e7, e9 and e11."""


class Refer(msgspec.Struct, frozen=True):
    """Shows results by one word, oldest first, except in the newest `keep` of the limit."""

    keep: float = 0.25
    last_resort: bool = False

    def __call__(self, scene: Scene) -> Iterable[Proposal]:
        for atom in scene.foldable(self.keep):
            for item in atom.items:
                if item.role == "tool":
                    yield scene.fold((item.id, 0), "[folded]", level="reference", policy="refer", because="old")


def tokens(count: int) -> Size:
    """A size that only tokens are limited by."""
    return Size(count, 10**9, 10**6)


def fold_of(view: View, limit: int, target: int, *stages: Stage, **options: int | Size) -> Fold | None:
    """Run a fit whose stages ask for nothing."""
    return run_fit(fit(view, tokens(limit), tokens(target), stages, **options), lambda _seqs: {})  # type: ignore[arg-type]


def folded(fold: Fold | None) -> list[str]:
    """The entries that a fold shows by stand-ins."""
    assert fold
    return [item.entry if isinstance(item, PartFold) else f"{item.first}..{item.last}" for item in fold.items]


def test_a_view_that_fits_is_left_alone() -> None:
    """Below the limit, nothing is folded and no stage is asked."""
    assert fold_of(view_of(*FIVE_READS), 1_000, 500, Refer()) is None


def test_folds_go_down_to_the_target_and_no_further() -> None:
    """The oldest results go until the target is reached; the fold says what it was and what it is."""
    view = view_of(*FIVE_READS)
    fold = fold_of(view, 500, 350, Refer())
    assert folded(fold) == ["e3", "e5", "e7"]
    assert fold
    assert fold.before == view.size.tokens > 500
    assert fold.after <= 350
    assert fold.reason == f"{view.size.tokens} tokens of messages, 500 allowed"


def test_the_view_itself_does_not_change() -> None:
    """A fold is a value. It takes effect when it is recorded, and then with the size that it promised."""
    view = view_of(*FIVE_READS)
    before = view.size
    fold = fold_of(view, 500, 350, Refer())
    assert view.size == before
    assert fold
    view.feed(12, Entry("e12", "e11", 0, "agent", fold))
    assert view.size.tokens == fold.after


def test_a_fold_names_its_price() -> None:
    """Everything after the first changed place is billed anew: here all but the request."""
    view = view_of(*FIVE_READS)
    fold = fold_of(view, 500, 350, Refer())
    assert fold
    assert fold.rebilled == fold.after - view.atoms[0].size.tokens


def test_a_trigger_folds_before_the_limit() -> None:
    """Above the trigger a fold is due, although more may be sent."""
    view = view_of(*FIVE_READS)
    assert fold_of(view, 1_000, 350, Refer(), trigger=tokens(900)) is None
    assert folded(fold_of(view, 1_000, 350, Refer(), trigger=tokens(500))) == ["e3", "e5", "e7"]


def test_the_newest_is_kept_however_large_it_is() -> None:
    """A share of the limit is left alone by `keep`, and the newest atom always, because the model has not seen it."""
    view = view_of(user("Go."), *pair(1), *pair(2, WORDS * 4))
    assert folded(fold_of(view, 510, 100, Refer(keep=0.01))) == ["e3"]


def test_a_last_resort_runs_only_if_the_others_were_not_enough() -> None:
    """It is asked for the middle between target and limit: above that, the next call would fold again."""
    view, gentle, last = view_of(*FIVE_READS), Refer(keep=0.7), Refer(keep=0.0, last_resort=True)
    assert folded(fold_of(view, 500, 300, gentle, last)) == ["e3", "e5"]
    assert folded(fold_of(view, 500, 100, gentle, last)) == ["e3", "e5", "e7"]


def test_what_is_mandatory_is_named_when_it_does_not_fit() -> None:
    """The system prompt, the first and the latest request and pins are never folded; the error has their sizes."""
    pinned = Projection("test", PLAIN.measure, PLAIN.omit, Pins(frozenset({"e3"})))
    view = view_of(system(WORDS), user(WORDS), assistant(WORDS), user("Now?"), assistant("ok"), projection=pinned)
    with pytest.raises(OverBudget) as error:
        fold_of(view, 200, 100, Refer(keep=0.0), tools_tokens=50)
    assert error.value.parts == {
        "tools": 50,
        "system prompt": 104,
        "first request": 104,
        "pinned entries": 104,
        "latest request": 5,
    }


def test_a_stand_in_that_is_longer_is_refused() -> None:
    """A fold only ever makes the view smaller, whatever a stage proposes."""

    class Inflate(Refer, frozen=True):
        def __call__(self, scene: Scene) -> Iterable[Proposal]:
            yield scene.fold(("e3", 0), WORDS * 2, level="trimmed", policy="inflate", because="no reason")

    fold = fold_of(view_of(*FIVE_READS), 500, 450, Inflate(), Refer())
    assert folded(fold) == ["e3", "e5"]
    assert fold
    assert {item.policy for item in fold.items} == {"refer"}


def test_thinking_of_finished_loops_goes_when_the_prefix_moves() -> None:
    """Its signatures may be bound to the old prefix. Where nothing else is folded, it stays."""
    thought = Message("assistant", (Thinking("hm"), Text("Read."), ToolCall("c0", "read", "{}")))
    bodies = (user("Go."), thought, result("c0", "x"), assistant("Done."), *FIVE_READS[1:])
    assert fold_of(view_of(*bodies), 10_000, 5_000, Refer()) is None
    assert folded(fold_of(view_of(*bodies), 500, 350, Refer()))[-1] == "e2"


class Quote(msgspec.Struct, frozen=True):
    """Covers the first pair by words of its original."""

    last_resort: bool = False

    def __call__(self, scene: Scene) -> Iterable[Proposal]:
        yield OriginalsNeeded((3,))
        original = scene.originals[3].body
        assert isinstance(original, Message)
        yield RangeFold("e2", "e3", "summary", f"[the {original.role} said much]", 4, "quote", "old")


def test_a_stage_asks_for_originals_and_fit_reads_nothing() -> None:
    """`fit` passes the question on as a value; whoever runs it reads the log and sends the entries."""
    asked: list[tuple[int, ...]] = []

    def originals(seqs: Iterable[int]) -> Mapping[int, Entry]:
        asked.append(tuple(seqs))
        return {seq: entries(*FIVE_READS)[seq] for seq in seqs}

    fold = run_fit(fit(view_of(*FIVE_READS), tokens(560), tokens(500), (Quote(),)), originals)
    assert asked == [(3,)]
    assert fold
    assert [item.text for item in fold.items] == ["[the tool said much]"]
