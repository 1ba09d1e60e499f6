"""Running a pattern over text in linear time.

The pattern is a graph of steps. A state is the set of steps at which a match may stand after what was read so far; where it
goes with the next character is computed once and remembered, so that a character costs one look-up. States that are never met
are never made. What must be so *between* two characters (`^ $ \\b`) is decided when the second of them is known; the end of a
line is a line break.
"""

from typing import TypeAlias

from foveal.recall.pattern import Chain, Chars, Choice, Node, Pattern, Repeat, Seam, is_word, literals, parse
from foveal.values.errors import BadInput

MOST_STEPS = 1_000
"""Of the graph: what a pattern of 200 characters needs unless it counts to large numbers."""
MOST_WORK = 5_000_000
"""Steps looked at while states are made: about two seconds. Few patterns need a thousandth of it on any text."""
MOST_REMEMBERED = 100_000
"""Remembered transitions, about 10 MB; then all are forgotten and made again as needed."""

_Step: TypeAlias = tuple[Chars | Seam | None, tuple[int, ...]]
"""What it asks for, and where it leads; a step that asks for nothing leads on at once."""
_ACCEPT = 0


class State(dict[str, "State"]):
    """Where each next character leads, as far as it was asked for."""

    __slots__ = ("before", "machine", "steps")

    def __init__(self, machine: "Automaton", steps: frozenset[int], before: bool | None) -> None:
        super().__init__()
        self.machine, self.steps, self.before = machine, steps, before

    def __missing__(self, char: str) -> "State":
        return self.machine.advance(self, char)


class Automaton:
    """A pattern that is looked for in lines."""

    def __init__(self, text: str) -> None:
        pattern = parse(text)
        self._text, self._ignores_case = text, pattern.ignores_case
        self._steps = _Graph(pattern).steps
        self._literals = literals(pattern)
        self._work = self._remembered = 0
        self._states: dict[tuple[frozenset[int], bool | None], State] = {}
        self._entry = len(self._steps) - 1
        self.matched = State(self, frozenset({_ACCEPT}), None)
        self.start = State(self, frozenset({self._entry}), None)

    def may_match(self, text: str) -> bool:
        """False if no line of the text can match: known at the speed of looking for a word."""
        if self._literals is None:
            return True
        text = text.lower() if self._ignores_case else text
        return any(literal in text for literal in self._literals)

    def run(self, state: State, text: str) -> State:
        for char in text:
            state = state[char]
        return state

    def matches(self, line: str) -> bool:
        return self.run(self.start, line)["\n"] is self.matched

    def end_of_match(self, state: State, text: str) -> int:
        """About where the first match ends in a text that is read from this state on; its length, if only the end tells."""
        for at, char in enumerate(text):
            state = state[char]
            if state is self.matched:
                return at
        return len(text)

    def advance(self, state: State, char: str) -> State:
        """Where the character leads; remembered."""
        if state is self.matched:
            return state
        reached = self._reached(state, None if char == "\n" else char)
        if _ACCEPT in reached:
            target = self.matched
        elif char == "\n":
            target = self.start
        else:
            target = self._state(reached, char)
        if self._remembered > MOST_REMEMBERED:
            self._forget()
        self._remembered += 1
        state[char] = target
        return target

    def _reached(self, state: State, after: str | None) -> set[int]:
        """All steps that a match may stand at, knowing what comes next."""
        reached: set[int] = set()
        waiting = list(state.steps)
        while waiting:
            at = waiting.pop()
            if at in reached:
                continue
            reached.add(at)
            asks, leads = self._steps[at]
            if asks is None or (isinstance(asks, Seam) and _holds(asks, state.before, after)):
                waiting.extend(leads)
        self._work += len(reached) + 4
        if self._work > MOST_WORK:
            raise BadInput(f"the pattern {self._text!r} takes too much work on this text; make it more specific")
        return reached

    def _state(self, reached: set[int], char: str) -> State:
        steps = {self._entry}  # a match may begin at every character
        for at in reached:
            asks, leads = self._steps[at]
            if isinstance(asks, Chars) and self._has(asks, char):
                steps.update(leads)
        key = frozenset(steps), is_word(char)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = State(self, *key)
        return found

    def _has(self, asks: Chars, char: str) -> bool:
        if not self._ignores_case:
            return asks.has(char)
        upper = char.upper()
        # "ſ" becomes an ASCII letter as a capital; whoever asks for that letter does not mean it.
        variants = {char, char.lower(), upper if upper.isascii() == char.isascii() else char}
        positive = Chars(asks.singles, asks.ranges, asks.classes)
        return any(positive.has(variant) for variant in variants) is not asks.negated

    def _forget(self) -> None:
        for state in (*self._states.values(), self.start, self.matched):
            state.clear()
        self._states.clear()
        self._remembered = 0


def _holds(seam: Seam, before: bool | None, after: str | None) -> bool:
    """Whether it is so between a character (a word's or not; None at the beginning) and the next (None at the end)."""
    match seam.kind:
        case "^":
            return before is None
        case "$":
            return after is None
        case "b" | "B":
            is_border = (before is True) is not (after is not None and is_word(after))
            return is_border is (seam.kind == "b")


class _Graph:
    """The steps of a pattern, made from its end to its beginning: the last one is where it begins."""

    def __init__(self, pattern: Pattern) -> None:
        self.steps: list[_Step] = [(None, ())]
        entry = self._build(pattern.root, _ACCEPT)
        self._add(None, entry)

    def _add(self, asks: Chars | Seam | None, *leads: int) -> int:
        if len(self.steps) >= MOST_STEPS:
            raise BadInput(f"the pattern is too large: its repeats make more than {MOST_STEPS:,} steps")
        self.steps.append((asks, leads))
        return len(self.steps) - 1

    def _build(self, node: Node, then: int) -> int:
        """The step at which the node begins, if `then` is what follows it."""
        match node:
            case Chars() | Seam():
                return self._add(node, then)
            case Chain(items):
                for item in reversed(items):
                    then = self._build(item, then)
                return then
            case Choice(items):
                return self._add(None, *[self._build(item, then) for item in items])
            case Repeat(item, least, most):
                return self._repeat(item, least, most, then)

    def _repeat(self, item: Node, least: int, most: int | None, then: int) -> int:
        if most is None:
            loop = self._add(None, then)
            again = self._build(item, loop)
            self.steps[loop] = (None, (then, again))
            then = loop
        else:
            for _ in range(most - least):
                then = self._add(None, then, self._build(item, then))
        for _ in range(least):
            then = self._build(item, then)
        return then
