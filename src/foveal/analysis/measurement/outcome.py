"""The outcome of a policy on one case: all figures, from one run.

Prices are worked out afterwards, from how many tokens each call sent and how many of them the call before it had sent too.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import is_
from time import process_time
from typing import TypeAlias

import msgspec

from foveal.analysis.measurement.case import (
    PROMPT_TOKENS,
    Case,
    Chat,
    Runner,
    Sent,
    count,
    text_of,
    tokens_of,
    tools_tokens,
)
from foveal.analysis.measurement.grounding import Need, is_name
from foveal.analysis.measurement.validity import problems
from foveal.text.user_words import user_words

AGES = (25, 50, 100)
"""Far clues are also counted by how many messages ago they were seen: up to each of these, and beyond."""

_LEAST_NAMES = 5
_TASK_CHARS = 200
_MOSTLY = 0.8
"""A line of at least `_LEAST_NAMES` words, of which this share are names, is a list of names."""

Tokens: TypeAlias = tuple[int, int, int, int]
"""Tokens of one call: sent, shared with the call before, and both for the whole history."""


class ActionSize(msgspec.Struct, frozen=True):
    """The size in bytes of one action, compressed by somebody who knows some text already."""

    near: int
    """Who knows the system prompt and the newest messages."""
    prompt: int
    """Who knows the prompt of the policy."""
    everything: int
    """Who knows the whole history."""


Gauge: TypeAlias = Callable[[Case, int, str], ActionSize]
"""Returns the sizes of the action of a call, by its number in the case and the text of the prompt."""


class Figures(msgspec.Struct):
    """Counts over the calls of one session, or of several added up."""

    calls: int = 0
    refused: int = 0
    invalid: int = 0
    over: int = 0
    """Calls that sent more than the budget."""
    task_lost: int = 0
    """Calls that did not show the first request."""
    moves: int = 0
    """Calls that did not begin with all of the prompt before."""
    summaries: int = 0
    sent_tokens: int = 0
    shared_tokens: int = 0
    list_tokens: int = 0
    """Tokens of lines that only list names, in messages that were not recorded."""
    largest: int = 0
    cpu_s: float = 0.0
    far: int = 0
    far_shown: int = 0
    far_offered: int = 0
    near: int = 0
    near_shown: int = 0
    actions: int = 0
    complete: int = 0
    ages: list[int] = msgspec.field(default_factory=lambda: [0] * (len(AGES) + 1))
    ages_shown: list[int] = msgspec.field(default_factory=lambda: [0] * (len(AGES) + 1))
    near_bytes: int = 0
    prompt_bytes: int = 0
    everything_bytes: int = 0
    """Sums of `ActionSize`; 0 where nobody gauged them."""


class PolicyOutcome(msgspec.Struct, frozen=True):
    """One policy, one budget, one session."""

    policy: str
    budget: int
    group: str
    session: str
    figures: Figures
    tokens: tuple[Tokens, ...]
    """The tokens of each call that was not refused."""
    failed: str = ""
    """Why the policy gave up; the calls after that count as refused."""


class Job(msgspec.Struct, frozen=True):
    policy: str
    budget: int


class _Known(msgspec.Struct, frozen=True, eq=False):
    """The figures of a message, computed once."""

    tokens: int
    text: str
    list_tokens: int


class Looks:
    """A cache of messages, of the case and of policies: each is read and counted once for all policies."""

    def __init__(self, case: Case) -> None:
        self._held: dict[int, tuple[Chat, _Known]] = {}
        self._same = {
            msgspec.json.encode(message): _Known(tokens, text_of(message), 0)
            for message, tokens in zip(case.messages, case.sizes, strict=True)
        }
        self._recorded = frozenset(line for known in self._same.values() for line in known.text.splitlines())
        self._tools = {msgspec.json.encode(case.tools): case.fixed - PROMPT_TOKENS}
        asked = (message for message in case.messages if message["role"] == "user")
        # Text that a harness puts before the task is no request.
        first = next((message for message in asked if user_words(text_of(message)).strip()), None)
        # Its longest line: an engine may mark a request up, but not leave it out.
        self.task = max(text_of(first).splitlines(), key=len, default="").strip()[:_TASK_CHARS] if first else ""

    def message(self, message: Chat) -> _Known:
        held = self._held.get(id(message))
        if held and held[0] is message:
            return held[1]
        key = msgspec.json.encode(message)
        known = self._same.get(key)
        if known is None:
            text = text_of(message)
            known = self._same[key] = _Known(tokens_of(message), text, list_tokens(text, self._recorded))
        self._held[id(message)] = message, known  # a reference to the message keeps its id from being reused
        return known

    def tools(self, tools: Sequence[Chat]) -> tuple[bytes, int]:
        """Return a key of these tools, and their tokens."""
        key = msgspec.json.encode(tools)
        if key not in self._tools:
            self._tools[key] = tools_tokens(tools)
        return key, self._tools[key]


def measure(
    case: Case, job: Job, runner: Runner, *, looks: Looks | None = None, gauge: Gauge | None = None
) -> PolicyOutcome:
    """Run the policy over the case. Pass the same `looks` when measuring several policies on one case."""
    run, failed = _Run(case, job.budget, looks or Looks(case), gauge), ""
    calls = runner(case, job.budget)
    for number in range(len(case.calls)):
        start = process_time()
        try:
            sent = next(calls)
        except Exception as error:  # another engine may raise anything; it is a result like any other
            failed = f"{type(error).__name__}: {error}"[:300]
            for rest in range(number, len(case.calls)):
                run.take(rest, Sent(refused=failed), 0.0)
            break
        run.take(number, sent, process_time() - start)
    return PolicyOutcome(job.policy, job.budget, case.group, case.id, run.figures, tuple(run.tokens), failed)


class _Run:
    def __init__(self, case: Case, budget: int, looks: Looks, gauge: Gauge | None) -> None:
        self.case, self.budget, self.figures, self._looks, self._gauge = case, budget, Figures(), looks, gauge
        self.tokens: list[Tokens] = []
        self._tools = b""
        self._messages: Sequence[Chat] = ()
        self._known: list[_Known] = []
        self._sums = [0]
        """Tokens of the prompt up to each message."""
        self._is_right = False

    def take(self, number: int, sent: Sent, cpu_s: float) -> None:
        figures, need = self.figures, self.case.needs[number]
        figures.calls += 1
        figures.cpu_s += cpu_s if sent.cpu_s is None else sent.cpu_s
        figures.summaries += sent.summaries
        if sent.refused:
            figures.refused += 1
            self._ground(need, "", sent)
            self._explain(number, "")
            return
        self._bill(number, sent)
        shown = "\n".join([one.text for one in self._known])
        figures.list_tokens += sum([one.list_tokens for one in self._known])
        figures.task_lost += self._looks.task not in shown
        self._ground(need, shown, sent)
        self._explain(number, shown)

    def _look(self, messages: Sequence[Chat]) -> int:
        """Take the messages of the next call; return how many leading ones it shares with the call before."""
        old = self._known
        same = _alike(self._messages, messages)
        new = [self._looks.message(message) for message in messages[same:]]
        self._messages, self._known = messages, [*old[:same], *new]
        self._sums = [*self._sums[:same], *accumulate((one.tokens for one in new), initial=self._sums[same])]
        return same + _alike(old[same:], new)

    def _bill(self, number: int, sent: Sent) -> None:
        figures, raw = self.figures, self.case.raw
        tools, fixed = self._looks.tools(sent.tools)
        before, is_same = len(self._known), self._tools == tools
        alike = self._look(sent.messages)
        if not is_same:
            alike = 0
        tokens = fixed + PROMPT_TOKENS + self._sums[-1]
        shared = fixed + self._sums[alike] if alike else 0
        figures.moves += bool(before) and (alike < before or not is_same)
        figures.over += tokens > self.budget
        figures.largest = max(figures.largest, tokens)
        figures.sent_tokens += tokens
        figures.shared_tokens += shared
        wrong = problems(sent.messages, sent.tools, since=alike if self._is_right else 0)
        self._is_right = not wrong
        figures.invalid += bool(wrong)
        raw_shared = raw[number - 1] - PROMPT_TOKENS if number else 0
        self.tokens.append((tokens, shared, raw[number], raw_shared))
        self._tools = tools

    def _ground(self, need: Need, shown: str, sent: Sent) -> None:
        figures = self.figures
        figures.near += len(need.near)
        figures.near_shown += sum(clue in shown for clue in need.near)
        if not need.far:
            return
        missing = {clue for clue, _ in need.far if clue not in shown}
        offered = "\n".join(sent.offered()) if missing else ""
        figures.far += len(need.far)
        figures.far_shown += len(need.far) - len(missing)
        figures.far_offered += len(need.far) - sum(clue not in offered for clue in missing)
        figures.actions += 1
        figures.complete += not missing
        for clue, age in need.far:
            of_age = sum(age > most for most in AGES)
            figures.ages[of_age] += 1
            figures.ages_shown[of_age] += clue not in missing

    def _explain(self, number: int, shown: str) -> None:
        if self._gauge is None:
            return
        size, figures = self._gauge(self.case, number, shown), self.figures
        figures.near_bytes += size.near
        figures.prompt_bytes += size.prompt
        figures.everything_bytes += size.everything


def _alike(old: Sequence[object], new: Sequence[object]) -> int:
    """Return how many leading objects are identical."""
    return next((i for i, same in enumerate(map(is_, old, new)) if not same), min(len(old), len(new)))


def list_tokens(text: str, recorded: frozenset[str]) -> int:
    """Return the tokens of the lines that only list names and are not in the recording."""
    lines = (line for line in text.splitlines() if line not in recorded)
    return sum(count(line) for line in lines if _is_list(line.split()))


def _is_list(words: Sequence[str]) -> bool:
    return len(words) >= _LEAST_NAMES and sum(map(is_name, words)) >= _MOSTLY * len(words)
