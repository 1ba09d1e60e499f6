"""The stage `Superseded`: makes stale results point to the newer one. Folded first, because nothing is lost with them.

    read a.py 1-200        its lines are in the reads below: stale
    read a.py 1-150        outdated by the edit: stale, but its lines are shown nowhere else
    read a.py 151-400      the same
    edit a.py              its text is in the read below: stale, if `written` is on
    read a.py 1-400        the newest: kept

A newer result must be shown in full itself, and must have succeeded; an error never replaces anything. Staleness is not a
question of age, so there is no `keep`. Results that are shown elsewhere, line by line, are folded before outdated ones.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import TypeVar

import msgspec

from foveal.fit.scene import Scene
from foveal.fit.stages.call_pairs import CallPair, call_pairs
from foveal.fit.stages.clear import LEAST_TOKENS
from foveal.text.calls.access import Access
from foveal.text.calls.coverage import END, LineSpan, asked_lines, covers, lines_needed, lines_shown, succeeded
from foveal.text.calls.reads import is_shell, locate_accesses
from foveal.text.shorten.arguments import shorten_arguments
from foveal.text.shorten.reference import result_reference
from foveal.text.stand_in import part_text
from foveal.values.entry import PartFold, ToolResult
from foveal.values.shown import short_ref

POLLING = frozenset(("write_stdin", "wait", "BashOutput", "TaskOutput", "wait_agent", "read_output", "get_output"))
"""Called again with the same arguments, these return only news: the earlier result is not an older version of the later one."""


T = TypeVar("T")


class Superseded(msgspec.Struct, frozen=True, tag="superseded", tag_field="fold", forbid_unknown_fields=True):
    """Turns stale results into references to newer ones; stale edits keep the beginning and the end of their text.

    With `edited`, outdated results count as stale too, although nothing newer shows their lines: reads of a file before it was
    edited, output of a command before it was run again. With `written`, so does the text that a call wrote to a file which was
    read whole or written again since. That is off: on replayed sessions it saved nothing that could be measured, and in a few
    it hid text that the next actions used.
    """

    edited: bool = True
    written: bool = False
    last_resort: bool = False

    @property
    def finds_stale(self) -> bool:
        """Whether its folds lose nothing. With `edited` they do: text read before an edit differs from text read after it."""
        return not self.edited

    def __call__(self, scene: Scene) -> Iterator[PartFold]:
        pairs = list(call_pairs(scene))
        _forget_others(scene, pairs)
        later = _Later(scene, with_written=self.written)
        shown_elsewhere: list[PartFold] = []
        outdated: list[PartFold] = []
        for step, files in reversed(list(zip(pairs, locate_accesses([step.call for step in pairs]), strict=True))):
            for fold, is_shown in later.stale(step, files):
                (shown_elsewhere if is_shown else outdated).append(fold)
            later.take(step, files)
        yield from reversed(shown_elsewhere)
        if self.edited:
            yield from reversed(outdated)


class _Later:
    """The calls after the current one, collected backwards."""

    def __init__(self, scene: Scene, *, with_written: bool) -> None:
        self._scene, self._with_written = scene, with_written
        self._same: dict[tuple[str, str], str] = {}
        self._reads: dict[str, list[tuple[LineSpan, str]]] = defaultdict(list)
        """Line spans of each file that results show, newest first."""
        self._texts: list[ToolResult] = []
        """Results that are shown in full, newest first."""
        self._full: dict[str, ToolResult] = {}
        """The same by their references."""
        self._lines: set[str] = set()
        """Lines of the first `_read` of them, taken on first use."""
        self._read = 0
        self._changed: dict[str, str] = {}
        self._written: dict[str, str] = {}

    def take(self, step: CallPair, files: tuple[Access, ...]) -> None:
        ref = short_ref(*step.at)
        if step.shown.level == "full":
            self._texts.append(step.result)
            self._full[ref] = step.result
        if step.result.status == "ok":
            self._same.setdefault((step.call.name, step.call.arguments), ref)
        for access in files:
            if not self._remember("succeeded", step, access, succeeded):
                continue
            if access.kind == "read" and step.shown.level == "full" and len(files) == 1:
                if span := self._remember("shown", step, access, lines_shown):
                    self._reads[access.path].append((span, ref))
            elif access.kind in ("write", "edit"):
                call_ref = short_ref(*step.call_at)
                self._changed.setdefault(access.path, call_ref)
                if access.kind == "write":
                    self._written.setdefault(access.path, call_ref)

    def stale(self, step: CallPair, files: tuple[Access, ...]) -> Iterator[tuple[PartFold, bool]]:
        """Yield the folds of a step, each with whether its hidden text is shown elsewhere."""
        if self._scene.is_mandatory(step.atom):
            return
        if self._with_written and (newer := self._newer_text(step, files)):
            yield from self._shortened(step, newer)
        found = self._newer_result(step, files)
        if found and step.shown.level != "reference" and step.shown.size.tokens > LEAST_TOKENS:
            newer, because, is_shown = found
            text = result_reference(step.result, step.call.name, step.shown.raw_tokens, short_ref(*step.at), newer)
            yield self._scene.fold(step.at, text, level="reference", policy="superseded", because=because), is_shown

    def _newer_result(self, step: CallPair, files: tuple[Access, ...]) -> tuple[str, str, bool] | None:
        same = self._same.get((step.call.name, step.call.arguments))
        if same and step.call.name not in POLLING:
            return same, f"the same call was made again; its newest result is {same}", self._shows(step, same)
        if not files or any(access.kind != "read" for access in files):
            return None
        path, reads = files[-1].path, [self._reads[access.path] for access in files]
        if step.result.status != "ok" and all(reads):
            return reads[-1][0][1], f"it failed; {path} was read later", True
        is_one = len(files) == 1
        needed = [
            self._remember("needed", step, access, lines_needed) if is_one else asked_lines(access) for access in files
        ]
        if newer := self._shown_by(files, needed):
            return newer, f"all that it shows of {path} was read again later", self._shows(step, newer)
        if all(access.path in self._changed for access in files):
            return self._changed[path], f"{path} was changed later", False
        return None

    def _remember(self, what: str, step: CallPair, access: Access, find: Callable[[ToolResult, Access], T]) -> T:
        """Return a finding about a result and an access to a file; it is remembered for as long as the result is there."""
        key = what, step.at, access
        known = self._scene.remembered.get(key)
        if known is None or known[0] is not step.result:
            self._scene.remembered[key] = known = step.result, find(step.result, access)
        return known[1]

    def _shows(self, step: CallPair, newer: str) -> bool:
        """Return whether later results have every line of this one: a command that is run again may print something else, and
        a file that is read again may have been changed.

        Lines that no later result had are remembered: until a fold or a pin, only results that came since can have them.
        """
        lines = frozenset(_lines(step.result))
        if newer in self._full and lines.issubset(_lines(self._full[newer])):
            return True
        view, key = self._scene.view, ("missing", step.at)
        state, newest = (view.facts.folds, view.projection), self._texts[0] if self._texts else None
        result, known = self._scene.remembered.get(key, (None, None))
        if known is not None and result is step.result and known[0] == state and known[2]:
            since = takewhile(lambda one: one is not known[1], self._texts)
            missing = known[2].difference(line for one in since for line in _lines(one))
        else:
            self._lines.update(line for one in self._texts[self._read :] for line in _lines(one))
            self._read = len(self._texts)
            missing = lines.difference(self._lines)
        self._scene.remembered[key] = step.result, (state, newest, missing)
        return not missing

    def _shown_by(self, files: tuple[Access, ...], needed: list[LineSpan]) -> str | None:
        """Return the newest of the reads that together show all of these lines; None if they do not."""
        for access, span in zip(files, needed, strict=True):
            if not covers((shown for shown, _ in self._reads[access.path]), span):
                return None
        first, last = needed[-1]
        return next(ref for (start, end), ref in self._reads[files[-1].path] if start <= last and first <= end)

    def _newer_text(self, step: CallPair, files: tuple[Access, ...]) -> str | None:
        """Return the reference of the call that shows or replaces everything that this call wrote; None if there is none."""
        if not files or is_shell(step.call) or any(access.kind not in ("write", "edit") for access in files):
            return None
        newer = [self._written.get(access.path) or self._shown_by((access,), [(1, END)]) for access in files]
        return newer[-1] if all(newer) else None

    def _shortened(self, step: CallPair, newer: str) -> Iterator[tuple[PartFold, bool]]:
        shown = step.call_shown
        if shown.level != "full" or shown.size.tokens <= 2 * LEAST_TOKENS:
            return
        text = shorten_arguments(step.call.arguments, LEAST_TOKENS, self._scene.count, short_ref(*step.call_at))
        if text is not None:
            because = f"what it wrote is shown or replaced by {newer}"
            yield self._scene.fold(step.call_at, text, level="trimmed", policy="superseded", because=because), True


def _lines(result: ToolResult) -> Iterator[str]:
    return map(str.strip, part_text(result).splitlines())


def _forget_others(scene: Scene, pairs: Sequence[CallPair]) -> None:
    """Forget the findings about results that are no longer shown, once they are more than the others."""
    known = scene.remembered
    if len(known) > 12 * len(pairs) + 256:
        shown = {id(pair.result) for pair in pairs} | {id(pair.atom) for pair in pairs}
        for key in [key for key, (value, _) in known.items() if id(value) not in shown]:
            del known[key]
