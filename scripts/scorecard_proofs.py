"""Figures about the proofs: rules that refuse as providers do, calls that must never be made, mutants, and guided fuzzing."""

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any

import fuzz_parsers
import mutants
from scorecard_data import cut_streams, hostile_values, unbricked
from scorecard_parts import Failures, Figure, Plant, Tried, cannot_import, folder_in_memory, replace
from scorecard_strangers import canaries

from foveal.dialects import find_dialect
from foveal.dialects.anthropic import rules as anthropic_rules
from foveal.dialects.sse import SseDecoder
from foveal.record import overflow
from foveal.record.overflow import refusal_in
from foveal.testing.builders import MODELS

ROOT = Path(__file__).parents[1]

# Recorded refusals


@cache
def _refused() -> list[tuple[str, Any]]:
    """Return each recorded refusal with its dialect: a request, or the words for a prompt that is too long."""
    sys.path.insert(0, str(ROOT))
    tables = {dialect: import_module(f"tests.dialects.{dialect}.test_rules").REFUSED for dialect in sorted(MODELS)}
    said = import_module("tests.record.test_overflow").SAID
    return [
        *((dialect, one) for dialect, table in tables.items() for one in table.values()),
        *(("", one) for one in said.values()),
    ]


def refusals(cases: int, seed: int) -> Tried:
    """Judge requests that providers refuse: each is refused under its rule and at its place, and each wording is understood."""
    known, failures = _refused(), Failures()
    chosen = random.Random(seed).sample(known, min(cases, len(known)))
    for dialect, told in chosen:
        if dialect:
            rule, where, request = told
            found = [(problem.rule, problem.where) for problem in find_dialect(dialect).problems(request, 0)]
            failures += [] if (rule, where) in found else [f"{dialect}: {rule} at {where} is not among {found}"]
        else:
            words, limit = told
            refusal = refusal_in(words)
            is_known = refusal is not None and refusal.limit == limit
            failures += [] if is_known else [f"{words:.80} is read as {refusal}"]
    return Tried(len(chosen), failures, there_are=len(known))


# Calls that must never be made

UNSAFE = frozenset(
    (
        *("pickle.find_class", "marshal.loads", "exec", "compile", "code.__new__", "ctypes.dlopen"),
        *("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect"),
    )
)
"""Events of the interpreter that no data of strangers may lead to."""
RULES = "S102,S301,S302,S307,S501,S506,S602,S604,S605,S608,S701,S702"
"""The linter's rules about code that is made of data: exec, pickle, eval, YAML with tags, shells, SQL, templates."""
_watched: list[list[str]] = []
_planted_sources: list[str] = []


def _watch(event: str, given: tuple[Any, ...]) -> None:
    if _watched and event in UNSAFE:
        frame, places = sys._getframe(1), list[str]()
        while frame is not None:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            frame = frame.f_back
        if not any(place.startswith("<frozen importlib") for place in places):  # modules are loaded at first use
            _watched[-1].append(f"{event} of {given!r:.80} at {places[0]}")


@contextmanager
def _watching(failures: Failures) -> Iterator[None]:
    _watched.append(failures)
    try:
        yield
    finally:
        _watched.pop()


def unsafe_calls(cases: int, seed: int) -> Tried:
    """Work on hostile data under an audit of the interpreter's calls, and let the linter look for code that is made of data."""
    failures, works = Failures(), (hostile_values, cut_streams, unbricked, canaries)
    share = max(1, cases // len(works))
    sys.addaudithook(_watch)
    for work in works:
        work(1, seed)  # loads whatever is loaded once
        with _watching(failures):
            work(share, seed)
    command = ["ruff", "check", "--isolated", "--no-cache", "--select", RULES, "--output-format", "concise"]
    with folder_in_memory() as folder:
        for number, source in enumerate(_planted_sources):
            (folder / f"{number}.py").write_text(source)
        scan = [sys.executable, "-m", *command, ROOT / "src", folder]
        found = subprocess.run(scan, capture_output=True, text=True, check=False)
    return Tried(share * len(works), [*failures, *re.findall(r".*: S\d+ .*", found.stdout)])


# Mutants

MOST_SURVIVE, ALL_MUTANTS = 0.15, 250
"""The share of mutants that may survive, and the published number: of fewer, twice the deviation of chance more may."""


def mutant_tests(cases: int, seed: int) -> Tried:
    """Change one place at a time of modules on which promises rest: their tests notice 85 of 100. The row has the score."""
    tried, left = mutants.survivors(cases, seed)
    noticed = tried - len(left)
    told = f"{noticed:,} of {tried:,} noticed, {noticed / tried:.0%}"
    chance = 2 * sqrt(tried * MOST_SURVIVE * (1 - MOST_SURVIVE)) if tried < ALL_MUTANTS else 0.0
    failures = left if len(left) > MOST_SURVIVE * tried + chance else []
    return Tried(tried, failures, there_are=sum(1 for _ in mutants.mutants()), told=told)


# Parsers


def fuzzed_parsers(cases: int, seed: int) -> Tried:
    """Fuzz each parser of strangers' bytes, guided by coverage: it returns, or raises an error of ours."""
    share = max(1, cases // len(fuzz_parsers.PARSERS))
    failures = [
        f"{name}: {crash}"
        for name, parser in fuzz_parsers.PARSERS.items()
        for crash in fuzz_parsers.fuzz(parser, share, random.Random(f"{seed} {name}"))[0]
    ]
    return Tried(share * len(fuzz_parsers.PARSERS), failures)


# Plants


def _evaluated_arguments() -> None:
    """Let the reader of a stream's lines evaluate them."""
    real = SseDecoder.feed

    def feed(self: SseDecoder, piece: bytes) -> Any:
        eval("0")  # noqa: S307 - the bug
        return real(self, piece)

    SseDecoder.feed = feed


def _pickled_source() -> None:
    """Let a module of the product read pickles."""
    _planted_sources.append("import pickle\n\n\ndef read(data):\n    return pickle.loads(data)\n")


def _strict_text() -> None:
    """Let the reader of a stream take bytes for UTF-8."""
    real = SseDecoder.feed

    def feed(self: SseDecoder, piece: bytes) -> Any:
        piece.decode()
        return real(self, piece)

    SseDecoder.feed = feed


def _empty_tests() -> None:
    """Let the tests be about something else."""
    mutants.MODULES = dict.fromkeys(mutants.MODULES, ("tests/values/test_pins.py",))


FIGURES = (
    Figure(
        "V2",
        "requests that providers refuse: refused under their rule, and their wordings understood",
        refusals,
        120,
        1_000,
        {
            "a rule less": Plant(replace(anthropic_rules, "_neighbours", lambda *_: []), "anthropic: .* is not among"),
            "wordings unread": Plant(replace(overflow, "_limit", lambda _found: None), "is read as"),
        },
        skipped=lambda: cannot_import(_refused, "the SDKs of the providers are not installed"),
    ),
    Figure(
        "S8",
        "hostile data leads to no unsafe call, and no code is made of data",
        unsafe_calls,
        4,
        20_000,
        {
            "evaluated": Plant(_evaluated_arguments, "^(exec|compile) of "),
            "pickles": Plant(_pickled_source, ": S301 "),
        },
    ),
    Figure(
        "Q1",
        "mutants of pairing, fence, budget and the store's chain and leases that tests notice (85 of 100 at least)",
        mutant_tests,
        5,
        ALL_MUTANTS,
        {"empty": Plant(_empty_tests, r", line \d+, ")},
    ),
    Figure(
        "Q2",
        "guided fuzzing of parsers",
        fuzzed_parsers,
        140,
        7_000_000,
        {"strict text": Plant(_strict_text, "sse: UnicodeDecodeError")},
    ),
)
