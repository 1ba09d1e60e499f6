"""An experiment: the trials that are still to make, their price, and the making of them, some calls at a time."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from hashlib import sha256

from foveal.analysis.agreement.answers import AnswerFile, AnswersHead
from foveal.analysis.agreement.estimate import Estimate, estimate
from foveal.analysis.agreement.sample import Askable, AskTerms, SampledCall
from foveal.analysis.agreement.trials import TRIALS, Asker, PromptKind, Trial
from foveal.values.errors import BadInput
from foveal.writers.faults import without_secrets

KINDS: tuple[PromptKind, PromptKind] = ("whole", "folded")


def head_of(terms: AskTerms, *, url: str | None, seed: int) -> AnswersHead:
    """Return the first line of the file of answers."""
    policy = sha256(terms.policy.canonical().encode()).hexdigest()[:16]
    address = without_secrets(url) if url else ""
    return AnswersHead(terms.model, address, terms.dialect, policy, terms.reply_tokens, seed)


def trials_of(call: SampledCall) -> Iterator[Trial]:
    """Yield the trials of a call. The prompts take turns, so that the second of each finds its prompt in the cache."""
    for number in range(1, TRIALS + 1):
        for kind in KINDS:
            yield Trial(call.digest, kind, number)


def missing(sample: Iterable[SampledCall], answers: AnswerFile) -> dict[SampledCall, list[Trial]]:
    """Return the trials that are still to make, by call."""
    left = {call: [trial for trial in trials_of(call) if not answers.has(trial)] for call in sample}
    return {call: trials for call, trials in left.items() if trials}


def price_of(terms: AskTerms, left: dict[SampledCall, list[Trial]]) -> Estimate:
    """Return the price of these trials."""
    return estimate(terms, ((call, trial.kind == "folded") for call, trials in left.items() for trial in trials))


def make_trials(
    asker: Asker,
    askables: Iterable[Askable],
    left: dict[SampledCall, list[Trial]],
    answers: AnswerFile,
    *,
    jobs: int,
    most_usd: float | None,
    ended: threading.Event | None = None,
    tick: Callable[[int], None] = lambda done: None,
) -> None:
    """Make the trials of each call, `jobs` calls at a time. Raise `BadInput` when more than `most_usd` has been spent.

    `ended` is set when no more are begun, so that nobody waits for a provider any longer.
    """
    by_digest = {call.digest: trials for call, trials in left.items()}
    spent = _Spending(most_usd, ended or threading.Event())

    def make(askable: Askable) -> int:
        trials: Sequence[Trial] = by_digest[askable.pair.sampled.digest]
        for trial in trials:
            spent.check()
            answer = asker.ask(askable, trial)
            answers.add(answer)
            spent.add(answer.cost_usd)
        return len(trials)

    with ThreadPoolExecutor(jobs, "foveal-ask") as pool:
        running: set[Future[int]] = set()
        try:
            for askable in askables:
                running.add(pool.submit(make, askable))
                while len(running) >= jobs:
                    running = _finished(running, tick)
            while running:
                running = _finished(running, tick)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            spent.ended.set()  # trials under way are kept; the next of each call are not begun


class _Spending:
    """The sum of the bills, and the most that they may come to."""

    def __init__(self, most_usd: float | None, ended: threading.Event) -> None:
        self._most_usd, self._usd, self.ended = most_usd, 0.0, ended

    def add(self, usd: float | None) -> None:
        self._usd += usd or 0.0

    def check(self) -> None:
        """Raise `BadInput` if nothing more may be sent."""
        if self._most_usd is not None and self._usd > self._most_usd:
            raise BadInput(
                f"${self._usd:,.2f} were spent, more than the ${self._most_usd:,.2f} that were confirmed as the most: the "
                "provider counts more tokens than we do. Answers are kept in --output; run again to confirm the rest"
            )
        if self.ended.is_set():
            raise BadInput("the experiment was ended")


def _finished(running: set[Future[int]], tick: Callable[[int], None]) -> set[Future[int]]:
    done, left = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        tick(future.result())
    return left
