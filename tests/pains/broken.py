"""Builds of Foveal in which exactly one mechanism is broken: each pain's protection, taken away.

A pain whose test still passes on its broken build is not protected by what we think it is.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from math import inf
from typing import Any
from unittest.mock import patch

import msgspec

from foveal.fit.fit import FitSteps
from foveal.fit.stages import summary_folds as summing
from foveal.fit.stages.shorten import Shorten
from foveal.models.counters import calibration
from foveal.project.atom_maker import AtomMaker
from foveal.project.transcript import Transcript
from foveal.record import overflow
from foveal.session import planner as planning
from foveal.session.compaction import FoldWriter
from foveal.session.model_setup import ModelSetup
from foveal.session.policy import Policy
from foveal.session.rebuild import OpenedLog, view_of
from foveal.stores.memory import MemoryStore
from foveal.stores.rows import branch
from foveal.summary import compose, prose, state
from foveal.summary.accept import Accepted
from foveal.summary.ledger.builder import LedgerBuilder
from foveal.summary.ledger.events import CallEnded, SpokenWords
from foveal.summary.ledger.extraction import update
from foveal.summary.ledger.extractors import EXTRACTORS
from foveal.summary.ledger.extractors.quotes import quotes
from foveal.text.stand_in import replace_part
from foveal.values.budget import Budget, MessageLimits
from foveal.values.entry import Fold, RangeFold, ToolResult
from foveal.values.errors import OverBudget
from foveal.values.pins import Pins
from foveal.values.shown import Size
from foveal.writers import summary_writer as scribe
from foveal.writers.worker import WorkerCall

Broken = Callable[[], AbstractContextManager[Any]]


def _without(family: str) -> Broken:
    """The ledger knows nothing of this family."""
    kept = tuple(extract for extract in EXTRACTORS if getattr(extract, "__name__", "") != family)
    assert len(kept) == len(EXTRACTORS) - 1
    return lambda: patch.object(update, "__defaults__", (kept,))


def never_refuses() -> AbstractContextManager[Any]:
    """What does not fit is folded all the same, again at every call."""
    real = planning.fit

    def fit(view: Any, *sizes: Any, **options: Any) -> FitSteps:
        try:
            return (yield from real(view, *sizes, **options))
        except OverBudget:
            return Fold((), "too large", view.size.tokens, view.size.tokens, 0)

    return patch.object(planning, "fit", fit)


def believes_old_usage() -> AbstractContextManager[Any]:
    """The size that the provider last reported is taken for the size of the next prompt."""
    real = ModelSetup.limits

    def limits(self: ModelSetup, view: Any, setup: Any, taken: int = 0) -> MessageLimits:
        found = real(self, view, setup, taken)
        believed = max(view.size.tokens, view.facts.usage[-1][1] if view.facts.usage else 0)
        share = view.size.tokens / max(1, believed)
        return MessageLimits(*(msgspec.structs.replace(size, tokens=int(size.tokens * share)) for size in found))

    return patch.object(ModelSetup, "limits", limits)


def cuts_atoms() -> AbstractContextManager[Any]:
    """A range ends in the middle of an atom: the call goes and its results stay."""
    real = Transcript._fold_range

    def fold_range(self: Any, fold: RangeFold, ref: Any) -> bool:
        place = self.place(fold.last)
        atom = self.atoms[place] if place is not None else None
        applied = real(self, fold, ref)
        if atom is not None and atom.kind == "tools":
            silent = tuple(msgspec.structs.replace(shown, part=None) for shown in atom.items[0].shown)
            half = (msgspec.structs.replace(atom.items[0], shown=silent), *atom.items[1:])
            self.atoms.insert(self.place(fold.last) + 1, msgspec.structs.replace(atom, items=half))
            self._recount()
        return applied

    return patch.object(Transcript, "_fold_range", fold_range)


def cuts_running_loops() -> AbstractContextManager[Any]:
    """The reply that opened a running loop is a reply like any other."""
    broken = ExitStack()
    for module in ("foveal.project.transcript", "foveal.fit.scene"):
        broken.enter_context(patch(f"{module}.loop_opener", lambda _atoms: None))
    return broken


def ignores_pins() -> AbstractContextManager[Any]:
    return patch.object(Pins, "after", lambda self, _mark: self)


def closes_nothing() -> AbstractContextManager[Any]:
    """Evidence that a failure is over is not looked at."""
    return patch.object(LedgerBuilder, "_passed", lambda _self, _passed: None)


def fails_with_its_summariser() -> AbstractContextManager[Any]:
    """A summariser that fails takes the session with it."""

    def refuse(_self: Any, failed: Any) -> None:
        raise RuntimeError(failed.detail)

    return patch.object(scribe.SummaryWriter, "_refuse", refuse)


def gives_everything_to_read() -> AbstractContextManager[Any]:
    return patch.object(prose, "TRANSCRIPT_TOKENS", 10_000_000)


def keeps_giants_in_the_log() -> AbstractContextManager[Any]:
    return patch("foveal.record.intake.offload", lambda _store, message: message)


def prunes_at_every_call() -> AbstractContextManager[Any]:
    """A window that slides: each call drops what the one before could still see."""
    real = ModelSetup.limits

    def limits(self: ModelSetup, view: Any, setup: Any, taken: int = 0) -> MessageLimits:
        found = real(self, view, setup, taken)
        return MessageLimits(found.most, Size(), msgspec.structs.replace(found.aim, tokens=int(view.size.tokens * 0.9)))

    stack = ExitStack()
    stack.enter_context(patch.object(ModelSetup, "limits", limits))
    stack.enter_context(patch("foveal.fit.cuts.after_tokens", lambda _view, _tokens: 0))  # however little it saves
    return stack


def keeps_the_order_of_tools() -> AbstractContextManager[Any]:
    real = planning.read_tools
    return patch.object(planning, "read_tools", lambda tools: tuple(spec for tool in tools for spec in real([tool])))


def resumes_with_everything() -> AbstractContextManager[Any]:
    """Opening a session forgets what was folded."""

    def view(self: OpenedLog, optics: Any) -> Any:
        rows = branch(self.rows.rows(self.branch.name))
        told = [row for row in rows if not row.payload.startswith(b'={"is":"fold"')]
        return view_of(told, self.branch.name, optics, MemoryStore().artifacts)

    return patch.object(OpenedLog, "view", view)


def believes_any_usage() -> AbstractContextManager[Any]:
    return patch.object(calibration, "_PLAUSIBLE", (0.0, inf))


def needs_usage() -> AbstractContextManager[Any]:
    """Without the provider's word no prompt is ever too large."""
    real = ModelSetup.limits
    endless = Size(10**9, 10**12, 10**6)

    def limits(self: ModelSetup, view: Any, setup: Any, taken: int = 0) -> MessageLimits:
        return real(self, view, setup, taken) if view.facts.usage else MessageLimits(endless, endless, endless)

    return patch.object(ModelSetup, "limits", limits)


def excludes_nothing() -> AbstractContextManager[Any]:
    """Whatever speaks of length is an overflow."""
    return patch.object(overflow, "_RATE_LIMIT", re.compile(r"(?!)"))


def has_the_last_word() -> AbstractContextManager[Any]:
    """What stands for the covered is put after everything else."""
    real = Transcript._fold_range

    def fold_range(self: Any, fold: RangeFold, ref: Any) -> bool:
        applied = real(self, fold, ref)
        self.atoms.sort(key=lambda atom: atom.gap is not None)
        self._mark_changed(0)
        self._recount()
        return applied

    return patch.object(Transcript, "_fold_range", fold_range)


def lives_in_its_parents_window() -> AbstractContextManager[Any]:
    """Every session gets the budget of the largest model, whatever its own takes."""
    broken = ExitStack()
    real = Policy.budget_for
    broken.enter_context(patch.object(Policy, "budget_for", lambda self, _window: real(self, 400_000)))
    broken.enter_context(takes_the_whole_window())
    return broken


def takes_the_whole_window() -> AbstractContextManager[Any]:
    """What a request may hold, and what a provider was found to take, change nothing."""
    return patch.object(Budget, "below", lambda self, _ceiling: self)


def crowds_out_the_user() -> AbstractContextManager[Any]:
    """Neither the state nor the user's short messages get the room that they need."""
    broken = ExitStack()
    for share in ("VITAL_SHARE", "SAID_SHARE"):
        broken.enter_context(patch.object(compose, share, 0.07))
    return broken


def halves_its_summaries() -> AbstractContextManager[Any]:
    """Each summary takes half of what the one before it took, and the user's words little of that."""
    broken = ExitStack()
    broken.enter_context(patch.object(summing, "_written", lambda _atom: 0))
    broken.enter_context(crowds_out_the_user())
    return broken


def asks_in_a_chat_of_its_own() -> AbstractContextManager[Any]:
    return patch.object(scribe.SummaryWriter, "sent", lambda _self, _request, _dialect: None)


def believes_counting_four_times() -> AbstractContextManager[Any]:
    return patch.object(calibration, "_PLAUSIBLE", (0.5, 4.0))


def keeps_its_summary() -> AbstractContextManager[Any]:
    """A summary is never written shorter, whatever the limit."""
    real = Transcript.shrinks

    def shrinks(self: Any, fold: Any) -> bool:
        is_old = (
            isinstance(fold, RangeFold) and fold.level == "summary" and not any(True for _ in self.covered_by(fold))
        )
        return real(self, fold) and not is_old

    return patch.object(Transcript, "shrinks", shrinks)


def shortens_nothing() -> AbstractContextManager[Any]:
    return patch.object(Shorten, "__call__", lambda _self, _scene: iter(()))


def waits_for_ever() -> AbstractContextManager[Any]:
    """For three seconds, which in a test is the same."""
    return patch.object(WorkerCall, "wait", lambda self, _timeout_s: self._over.wait(3.0))


def accepts_anything() -> AbstractContextManager[Any]:
    return patch.object(scribe, "accept", lambda answer, _question, **_: Accepted(answer))


def forgets_what_it_knew() -> AbstractContextManager[Any]:
    """Each summary is made from what is newly covered, and from nothing that the one before knew."""
    return patch("foveal.fit.stages.summary_folds.decode_summary", lambda _state: state.Summary())


def counts_no_images() -> AbstractContextManager[Any]:
    real = Budget.for_messages

    def limits(self: Budget, *counts: Any) -> MessageLimits:
        return MessageLimits(*(msgspec.structs.replace(size, images=10**6) for size in real(self, *counts)))

    return patch.object(Budget, "for_messages", limits)


def goes_back_after_summarising() -> AbstractContextManager[Any]:
    """What came in while the summary was written is thrown away with the old view."""
    real = FoldWriter.write

    def write(self: Any, *given: Any, **options: Any) -> Fold:
        before = self._journal.view.copy()
        fold = real(self, *given, **options)
        self._journal._view = before
        return fold

    return patch.object(FoldWriter, "write", write)


def tells_to_start_again() -> AbstractContextManager[Any]:
    real = Transcript._gap

    def gap(self: Any, run: Any, fold: RangeFold, text: str, *rest: Any) -> Any:
        return real(self, run, fold, f"{text}\nPlease continue: start with the steps of your instructions.", *rest)

    return patch.object(Transcript, "_gap", gap)


def stubs_what_was_read() -> AbstractContextManager[Any]:
    """A result that was seen before is shown as a line that says so."""
    real, seen = AtomMaker._retained, set[str]()

    def retained(self: Any, shown: Any, *rest: Any) -> Any:
        text = str(shown.part.content) if isinstance(shown.part, ToolResult) else ""
        known = text in seen
        seen.add(text)
        if not known:
            return real(self, shown, *rest)
        return msgspec.structs.replace(shown, part=replace_part(shown.part, "[unchanged since it was last read]"))

    return patch.object(AtomMaker, "_retained", retained)


def believes_every_harness() -> AbstractContextManager[Any]:
    """Whatever comes in the user's role is a request."""
    return patch("foveal.project.transcript.user_words", lambda text: text)


def shows_lines_as_they_are() -> AbstractContextManager[Any]:
    return patch("foveal.summary.relevance.render.quote_line", lambda row: row)


def quotes_everybody() -> AbstractContextManager[Any]:
    """What tools say is taken for words of the user."""

    def heard(event: Any) -> Iterator[Any]:
        yield from quotes(SpokenWords("user", event.text, is_last=True) if isinstance(event, CallEnded) else event)

    return patch.object(update, "__defaults__", ((heard, *(one for one in EXTRACTORS if one is not quotes)),))


def tells_nobody() -> AbstractContextManager[Any]:
    return patch.object(scribe, "tell", lambda _listener, _event: None)


BUILDS: dict[str, Broken] = {
    "test_pain_01_compaction_loop": never_refuses,
    "test_pain_02_stale_usage": believes_old_usage,
    "test_pain_03_orphaned_tool_pair": cuts_atoms,
    "test_pain_04_thinking_signatures": cuts_running_loops,
    "test_pain_05_project_rules_lost": ignores_pins,
    "test_pain_05_rules_of_the_user_crowded_out": crowds_out_the_user,
    "test_pain_05_later_system_messages_lost": _without("quotes"),
    "test_pain_06_todo_lost": _without("todos"),
    "test_pain_06_todos_leave_a_small_summary": halves_its_summaries,
    "test_pain_07_done_work_reopened": closes_nothing,
    "test_pain_08_re_read_storm": _without("files"),
    "test_pain_09_too_big_to_compact": fails_with_its_summariser,
    "test_pain_10_gate_deadlock": gives_everything_to_read,
    "test_pain_11_giant_result": keeps_giants_in_the_log,
    "test_pain_11_giant_result_beside_history": shortens_nothing,
    "test_pain_12_pruning_busts_the_cache": prunes_at_every_call,
    "test_pain_13_volatile_prefix": keeps_the_order_of_tools,
    "test_pain_14_summary_call_uncached": asks_in_a_chat_of_its_own,
    "test_pain_15_cold_resume": resumes_with_everything,
    "test_pain_16_wrong_window": believes_any_usage,
    "test_pain_16_input_limit": takes_the_whole_window,
    "test_pain_16_double_counting": believes_counting_four_times,
    "test_pain_17_no_usage": needs_usage,
    "test_pain_18_rate_limit_read_as_overflow": excludes_nothing,
    "test_pain_18_a_summary_shrinks_with_the_limit": keeps_its_summary,
    "test_pain_19_agent_stops_after_compaction": has_the_last_word,
    "test_pain_20_sub_agents_have_no_context_management": lives_in_its_parents_window,
    "test_pain_21_running_children_forgotten": _without("children"),
    "test_pain_22_sub_agent_output_floods_parent": shortens_nothing,
    "test_pain_23_latency": waits_for_ever,
    "test_pain_24_bad_summary_persisted": accepts_anything,
    "test_pain_25_drift": forgets_what_it_knew,
    "test_pain_images_are_dropped_by_count": counts_no_images,
    "test_pain_queued_messages_survive": goes_back_after_summarising,
    "test_pain_compaction_asks_for_no_restart": tells_to_start_again,
    "test_pain_legitimate_re_reads_are_shown": stubs_what_was_read,
    "test_pain_first_request_behind_an_injected_message": believes_every_harness,
    "test_pain_poisoned_tool_text": quotes_everybody,
    "test_pain_poisoned_tool_text_forges_a_heading": shows_lines_as_they_are,
    "test_pain_visibility": tells_nobody,
}
"""By the test that fails on it."""
