"""A breaker, which stops calls to a summariser that fails again and again."""

import msgspec

from foveal.writers.call import AcceptedSummary, FailedSummary, SummaryOutcome


class Breaker(msgspec.Struct, frozen=True):
    """Opens after `after` failures in a row and stays open for `rest` compactions; then one attempt is allowed again.

    A compaction by hand may ask while the breaker is open; its success closes the breaker. The value is small and frozen, so
    that a session can keep it beside its log and a test can write it down.
    """

    after: int = 3
    rest: int = 5
    failures: int = 0
    """Failures in a row, up to now."""
    rested: int = 0
    """Compactions without the summariser since its last failure."""

    @property
    def is_open(self) -> bool:
        """Whether the summariser must not be asked now."""
        return self.failures >= self.after and self.rested < self.rest

    def after_outcome(self, outcome: SummaryOutcome) -> "Breaker":
        """Return the breaker after an outcome. A cancellation by the caller says nothing about the summariser."""
        match outcome:
            case AcceptedSummary():
                return msgspec.structs.replace(self, failures=0, rested=0)
            case FailedSummary("cancelled"):
                return self
            case FailedSummary():
                return msgspec.structs.replace(self, failures=self.failures + 1, rested=0)

    def after_skip(self) -> "Breaker":
        """Return the breaker after a compaction that did not ask because it was open."""
        return msgspec.structs.replace(self, rested=self.rested + 1)
