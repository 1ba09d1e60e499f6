"""Folds of an open session: planned when due, by hand, or after a provider's refusal."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from typing import Any

from foveal import writers
from foveal.context.injection import NextCall
from foveal.fit import stages
from foveal.project.view import View
from foveal.record.overflow import refusal_in, refused_overflow
from foveal.session.journal import Journal
from foveal.session.options import Host
from foveal.session.planner import Planner, fetched_often
from foveal.values.entry import Fold, LimitForgotten, Setup
from foveal.values.errors import BadInput, ContextOverflow, OverBudget
from foveal.values.events import Listener, Pressure
from foveal.values.prompt import Prompt


class FoldWriter:
    """Has the summaries of planned folds written, by the host's summariser where there is one."""

    def __init__(self, journal: Journal, planner: Planner, host: Host, listener: Listener) -> None:
        self._journal, self._planner, self._host, self._listener = journal, planner, host, listener
        self._compact = journal.setup.policy.compact
        self._asks_model = host.summariser is not None or bool(self._compact.summariser)
        if self._asks_model:
            _ = self._summary_writer  # an unknown summariser is an error now, and not in the first fold

    @cached_property
    def _summary_writer(self) -> "writers.SummaryWriter":
        stage = self._journal.setup.policy.summarise
        summariser = self._host.summariser
        return writers.SummaryWriter(self._journal.name, self._compact, summariser, self._listener, stage=stage)

    def write(self, fold: Fold, instructions: str = "", *, by_hand: bool = False) -> Fold:
        """Return the fold with the best prose that can be had for its summary."""
        view = self._journal.view
        facts = view.facts
        may_have_prose = self._asks_model or bool(facts.checkpoint)
        steps = self._planner.steps(view, fold) if self._asks_model else ()  # code has read them already
        shown = tuple(stages.shown_beside(view, fold)) if may_have_prose else ()
        fetched = fetched_often(self._journal.store, self._journal.name, view) if may_have_prose else {}
        with self._journal.turn.open_for_appends() if self._asks_model else nullcontext():
            return self._summary_writer.write(
                fold,
                steps,
                count=view.projection.measure.count,
                shown=shown,
                fetched=fetched,
                instructions=instructions,
                by_hand=by_hand,
                may_ask=by_hand or not facts.overflows,  # after a refusal nothing may depend on one more call
                checkpoint=facts.checkpoint,
            )

    def ask_ahead(self, setup: Setup) -> None:
        """Have the next summary written in the background once the soft trigger is reached, so that no prompt waits for it."""
        if not self._asks_model or not self._summary_writer.is_wanted or self._summary_writer.is_asked_ahead:
            return
        view = self._journal.view
        with suppress(OverBudget):
            if fold := self._planner.ahead(view, setup, self._compact.soft, context_tokens(view)):
                steps = self._planner.steps(view, fold)
                self._summary_writer.ask_ahead(fold, steps, view.projection.measure.count)

    def note_sent(self, prompt: Prompt) -> None:
        """Remember the newest request: a summariser that is the conversation's own model may append to it."""
        if self._asks_model:
            self._summary_writer.sent(prompt.request, prompt.setup.dialect)

    def close(self) -> None:
        """Drop a question that is under way."""
        if self._asks_model:
            self._summary_writer.close()


class Compaction:
    """Folds by hand, recovers from a provider's refusal, and tells how full the next prompt is."""

    def __init__(
        self,
        journal: Journal,
        planner: Planner,
        writer: FoldWriter,
        prompt: Callable[[Sequence[Mapping[str, Any]], NextCall], Prompt],
    ) -> None:
        self._journal, self._planner, self._writer, self._prompt = journal, planner, writer, prompt

    def fold(self, instructions: str = "") -> Fold | None:
        """Fold now, down to half of the prompt's tokens; None if nothing can be folded.

        `instructions` tell the summariser what to look at above all; without a summariser they have no reader.
        """
        with self._journal.turn.of("compaction.fold"):
            planned = self._planner.by_hand(self._journal.view)
            if planned is None:
                return None
            written = self._writer.write(planned, instructions, by_hand=True)
            self._journal.keep([written], with_snapshot=False)
            self._journal.snapshot_soon()
            return written

    def recover(
        self,
        error: object,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        next_call: NextCall = NextCall(),  # noqa: B008 - a frozen value
    ) -> Prompt:
        """Return a smaller prompt, after the provider refused the last one for its length with this error.

        The limit that the error tells holds for all later prompts. No model is asked. An error that says something else is
        raised again; `ContextOverflow` after `compact.recoveries` refusals in a row.
        """
        refusal = refusal_in(error)
        if refusal is None:
            raise error if isinstance(error, BaseException) else BadInput(f"this tells of no overflow: {error!r}")
        journal = self._journal
        with journal.turn.of("compaction.recover"):
            overflows, sent = journal.view.facts.overflows, journal.estimated or self.pressure().tokens
            if overflows >= journal.setup.policy.compact.recoveries:
                raise ContextOverflow(journal.setup.model, overflows + 1, sent, refusal.said)
            factor = journal.setup.factor(journal.view)
            journal.keep([refused_overflow(journal.setup.model, refusal, sent, factor)])
            return self._prompt(tools, next_call)

    def forget_limit(self) -> None:
        """Forget the limit that was learned of the model; the policy's own holds again."""
        with self._journal.turn.of("compaction.forget_limit"):
            if self._journal.setup.model in self._journal.view.facts.ceilings:
                self._journal.keep([LimitForgotten(self._journal.setup.model)])

    def pressure(self) -> Pressure:
        """Return how full the next prompt is."""
        view = self._journal.view
        return self._planner.pressure(view, context_tokens(view))


def context_tokens(view: View) -> int:
    """Return the tokens of the side context of the last prompt."""
    return sum(block.tokens for block in view.facts.context.blocks) if view.facts.context else 0
