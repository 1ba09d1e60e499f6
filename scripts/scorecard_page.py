"""The page of the scorecard: a row for each figure, with the date and the commit of the run that it comes from."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

HEAD = "| | tried | cases | failures | bugs planted, caught | seconds | date | commit |\n|---|---|---:|---:|---|---:|---|---|"
_ROW = re.compile(r"\| (\w+) \|(?:[^|]*\|){5} *\d{4}-\d\d-\d\d \| *\w+\+? \|")
"""A row that tells its date and its commit."""


class Line(NamedTuple):
    """The outcome of one figure."""

    name: str
    what: str
    cases: int
    whole: int
    """Cases of the run whose figure is published; with fewer, the row tells both."""
    failures: int
    examples: list[str]
    caught: Mapping[str, bool]
    seconds: float
    is_broken: bool = False
    """Whether the figure ended by an error of its own."""

    @property
    def is_good(self) -> bool:
        return not self.failures and all(self.caught.values())

    def row(self, date: str, commit: str) -> str:
        """Return the line of the table."""
        caught = ", ".join(f"{name}{'' if is_caught else ': MISSED'}" for name, is_caught in self.caught.items())
        cells = (
            self.name,
            self.what,
            f"{self.cases:,}" + (f" of {self.whole:,}" if self.cases < self.whole else ""),
            "broken" if self.is_broken else f"{self.failures:,}",
            f"{sum(self.caught.values())} of {len(self.caught)}: {caught}",
            f"{self.seconds:,.0f}",
            date,
            commit,
        )
        return f"| {' | '.join(cells)} |"


def with_rows(page: str, rows: Mapping[str, str], order: Iterable[str]) -> str:
    """Return a page with new rows by their figures. Rows of other figures stay, if they tell their date and their commit."""
    kept = {found[1]: line for line in page.splitlines() if (found := _ROW.fullmatch(line))}
    every = {**kept, **rows}
    lines = [every[name] for name in order if name in every]
    told = "`python scripts/scorecard.py --whole --write`. Each row tells the run that it comes from; `+` is a tree with changes."
    return "\n".join(["# Scorecard", "", told, "", HEAD, *lines, ""])


def minutes_told(page: str) -> dict[str, float]:
    """Return the minutes that the published cases of each figure on a page take, at the speed of its row."""
    told = dict[str, float]()
    for line in page.splitlines():
        if found := _ROW.fullmatch(line):
            cells = [cell.strip().replace(",", "") for cell in line.split("|")]
            cases, _, whole = cells[3].partition(" of ")
            told[found[1]] = int(cells[6]) * int(whole or cases) / max(1, int(cases)) / 60
    return told


class Pace(NamedTuple):
    """The speed of one figure, measured with its small number of cases."""

    name: str
    small: int
    whole: int
    seconds: float

    @property
    def minutes(self) -> float:
        """Minutes that the published number of cases takes at this speed: an upper bound, since each run has a beginning."""
        return self.seconds * self.whole / self.small / 60

    def cases_in(self, minutes: float) -> int:
        """Return the largest number of cases that fits."""
        return self.whole if self.minutes <= minutes else max(1, int(self.whole * minutes / self.minutes))


def plan_table(paces: Iterable[Pace]) -> str:
    """Return the table of minutes that published sizes take, the shortest first, with their sum so far."""
    lines, total = ["| | cases | cases a second | minutes | sum |", "|---|---:|---:|---:|---:|"], 0.0
    for pace in sorted(paces, key=lambda pace: pace.minutes):
        total += pace.minutes
        speed = pace.small / max(pace.seconds, 1e-3)
        lines.append(f"| {pace.name} | {pace.whole:,} | {speed:,.1f} | {pace.minutes:,.1f} | {total:,.1f} |")
    return "\n".join(lines)
