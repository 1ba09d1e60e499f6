"""The tokens of a replay's calls as a series to draw."""

import msgspec

from foveal.analysis.replay.replay import Replay


class Series(msgspec.Struct, frozen=True):
    """One value a call. `sent` and `cached` are 0 for a refused call."""

    raw: tuple[int, ...]
    sent: tuple[int, ...]
    cached: tuple[int, ...]
    folds: frozenset[int]
    refused: frozenset[int]
    limit: int


def series_of(replay: Replay) -> Series:
    """Return the series of a replay."""
    return Series(
        raw=tuple(call.raw.tokens for call in replay.calls),
        sent=tuple(call.sent.tokens if call.sent else 0 for call in replay.calls),
        cached=tuple(call.sent.cached if call.sent else 0 for call in replay.calls),
        folds=frozenset(i for i, call in enumerate(replay.calls) if call.fold),
        refused=frozenset(i for i, call in enumerate(replay.calls) if call.sent is None),
        limit=replay.limit,
    )


def shortened(series: Series, most: int) -> Series:
    """Return the series in at most this many steps, each as large as its largest call."""
    calls = len(series.raw)
    if calls <= most:
        return series
    spans = [range(i * calls // most, (i + 1) * calls // most) for i in range(most)]

    def largest(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(values[i] for i in span) for span in spans)

    return Series(
        raw=largest(series.raw),
        sent=largest(series.sent),
        cached=largest(series.cached),
        folds=frozenset(at for at, span in enumerate(spans) if series.folds & set(span)),
        refused=frozenset(at for at, span in enumerate(spans) if series.refused & set(span)),
        limit=series.limit,
    )
