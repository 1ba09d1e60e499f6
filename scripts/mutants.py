"""Change one place of a module at a time, and see whether its tests notice.

    python scripts/mutants.py --mutants 200 [--seed N]
    python scripts/mutants.py --only foveal.stores.lease

The modules are those on which promises rest: pairs of calls and results, the fence, the budget, the store's chain and leases. A
mutant swaps a comparison, negates a condition, moves a number by one, or forgets a value that is returned. Tests of its room run
against it in a process of their own; one that they pass has survived, and is printed with its place.

Tests of a module are collected once. Each of its mutants is a fork of that process, in which functions get their changed code;
those that change what is done while the module is loaded are loaded anew, in a process of their own. Tests that noticed
another mutant run first, then the quickest, until one fails.
"""

import argparse
import ast
import importlib.util
import inspect
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from live_code import codes_in, replace_codes

ROOT = Path(__file__).parents[1]
PATIENCE_S = 300.0
_GUARD = tuple(f"tests/text/guard/test_{name}.py" for name in ("neutral_text", "names", "parts", "frame"))
MODULES: dict[str, tuple[str, ...]] = {
    "foveal.text.repair": ("tests/text/test_repair.py", "tests/properties/test_no_log_bricks.py"),
    "foveal.fit.cuts": ("tests/fit/test_cuts.py", "tests/session/test_newest.py"),
    "foveal.text.guard.protection": ("tests/text/guard/test_protection.py", *_GUARD),
    "foveal.text.guard.seals": ("tests/text/guard/test_seals.py", *_GUARD),
    "foveal.values.budget": (
        "tests/values/test_budget.py",
        "tests/session/test_planner.py",
        "tests/session/test_compaction.py",
    ),
    "foveal.stores.chain": (
        "tests/stores/test_chain.py",
        "tests/stores/test_contract.py",
        "tests/stores/sqlite/test_damage.py",
    ),
    "foveal.stores.lease": ("tests/stores/test_lease.py", "tests/stores/sqlite/test_leases.py"),
}
"""Modules with the tests of their rooms, the quickest first."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Mutant(NamedTuple):
    """A module with one place changed."""

    module: str
    number: int
    where: str


class Mutation(ast.NodeTransformer):
    """Changes the place of a number; counts all places where there is none of that number."""

    def __init__(self, number: int = -1) -> None:
        self._number = number
        self.places: list[tuple[int, str]] = []
        """The line of each place, and what is there."""

    def _is_chosen(self, node: ast.AST, text: str) -> bool:
        self.places.append((getattr(node, "lineno", 0), text))
        return len(self.places) - 1 == self._number

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if type(node.ops[0]) in _COMPARISONS and self._is_chosen(node, f"comparison {ast.unparse(node)}"):
            node.ops[0] = _COMPARISONS[type(node.ops[0])]()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._is_chosen(node, ast.unparse(node)):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self._is_chosen(node, f"condition {ast.unparse(node.test)}"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and self._is_chosen(node, f"number {node.value}"):
            return ast.Constant(node.value + 1)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        value = node.value.value if isinstance(node.value, ast.Constant) else node.value
        if value is not None and self._is_chosen(node, ast.unparse(node)):
            # Nothing is as false as False, to all who ask whether something is so.
            node.value = ast.Constant(None if value is not False else True)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node


def mutants() -> Iterator[Mutant]:
    """Yield all mutants of all modules."""
    for module in MODULES:
        counted = Mutation()
        counted.visit(ast.parse(_source(module)))
        for number, (line, text) in enumerate(counted.places):
            yield Mutant(module, number, f"{module}, line {line}, {text}")


def _path(module: str) -> Path:
    return ROOT / "src" / f"{module.replace('.', '/')}.py"


def _source(module: str) -> str:
    return _path(module).read_text()


def _code(module: str, number: int) -> CodeType:
    tree = ast.fix_missing_locations(Mutation(number).visit(ast.parse(_source(module))))
    return compile(tree, str(_path(module)), "exec", dont_inherit=True)


def is_in_function(module: str, number: int) -> bool:
    """Return whether a mutant changes functions alone, and nothing that is done while the module is loaded."""
    return list(_loading(_code(module, -1))) == list(_loading(_code(module, number)))


def _loading(code: CodeType) -> Iterator[tuple[Any, ...]]:
    """Yield what is done while a module is loaded: by itself, by its classes, and by comprehensions outside of functions."""
    yield code.co_code, code.co_names, [one for one in code.co_consts if not isinstance(one, CodeType)]
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and (
            not inner.co_flags & inspect.CO_OPTIMIZED or inner.co_name in _COMPREHENSIONS
        ):
            yield from _loading(inner)


class _Changed(MetaPathFinder, Loader):
    """Finds one module, and loads its mutant."""

    def __init__(self, module: str, number: int) -> None:
        self._module, self._number = module, number

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return the spec of the module that is changed."""
        if fullname != self._module:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(_path(fullname)))

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed source."""
        exec(_code(self._module, self._number), module.__dict__)  # noqa: S102 - our own source


class Forks:
    """A plugin of pytest that runs the tests once for each mutant, each time in a fork, instead of once."""

    def __init__(self, module: str, numbers: Sequence[int], answers: Path) -> None:
        self._module, self._numbers, self._answers = module, numbers, answers
        self._pipe = -1
        self._seconds = dict[str, float]()
        self._noticed = dict[str, int]()
        """How many mutants each test noticed."""

    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Run the tests without a change, and with each mutant. In a fork, return None: pytest goes on with its own loop."""
        for number in self._numbers:
            session.items.sort(key=lambda item: (-self._noticed.get(item.nodeid, 0), self._seconds.get(item.nodeid, 0)))
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                self._pipe = writing
                if number >= 0:
                    replace_codes(list(codes_in(_code(self._module, number))))
                return None
            os.close(writing)
            is_noticed = self._heard(pid, reading)
            with self._answers.open("a") as file:
                file.write(f"{number} {int(is_noticed)}\n")
            if is_noticed and number < 0:
                break
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Tell the first process how a test ended."""
        os.write(self._pipe, f"{report.duration} {report.outcome} {report.nodeid}\n".encode())

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """End a fork, without the leave-taking of the interpreter."""
        if self._pipe >= 0:
            os._exit(int(exitstatus))

    def _heard(self, pid: int, reading: int) -> bool:
        """Listen to a fork until it ends, and return whether a test failed. One that hangs is noticed."""
        said, ends_s = b"", time.monotonic() + PATIENCE_S
        while select.select([reading], [], [], max(0.0, ends_s - time.monotonic()))[0]:
            if not (piece := os.read(reading, 65536)):
                break
            said += piece
        else:
            os.kill(pid, signal.SIGKILL)
        os.close(reading)
        for line in said.decode().splitlines():
            seconds, outcome, name = line.split(" ", 2)
            self._seconds[name] = max(self._seconds.get(name, 0.0), float(seconds))
            if outcome == "failed":
                self._noticed[name] = self._noticed.get(name, 0) + 1
        return os.waitpid(pid, 0)[1] != 0


def load(module: str, number: int, tests: list[str]) -> int:
    """Run tests in this process with a mutant that is loaded instead of its module, and return the status of pytest."""
    sys.meta_path.insert(0, _Changed(module, number))
    return _tested(tests)


def fork(answers: Path, module: str, numbers: list[int], tests: list[str]) -> int:
    """Collect tests in this process, run them for each mutant in a fork, and write whether they noticed it."""
    return _tested(tests, Forks(module, numbers, answers))


def _tested(tests: list[str], *plugins: object) -> int:
    import pytest  # noqa: PLC0415 - for tests alone

    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly"]
    return int(pytest.main([*options, *tests], plugins=plugins))


def noticed(module: str, numbers: Sequence[int], tests: Sequence[str]) -> dict[int, bool]:
    """Return of each mutant of a module whether tests fail with it, and with the number -1 whether they fail without a change."""
    forked = [-1, *(number for number in numbers if is_in_function(module, number))]
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers"
        _in_python("--fork", str(answers), module, ",".join(map(str, forked)), *tests)
        lines = [line.split() for line in answers.read_text().splitlines()] if answers.exists() else []
    found = {int(number): told == "1" for number, told in lines} or {-1: True}
    if found[-1]:
        return found
    loaded = [number for number in numbers if number not in forked]
    return found | {
        number: _in_python("--load", module, str(number), *tests, wait_s=PATIENCE_S) != 0 for number in loaded
    }


def _in_python(*words: str, wait_s: float | None = None) -> int:
    """Run this script, and return its status; 1 if it hangs."""
    command = [sys.executable, __file__, *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=wait_s)
    except subprocess.TimeoutExpired:
        return 1
    return done.returncode


def survivors(cases: int, seed: int) -> tuple[int, list[str]]:
    """Try so many mutants; return how many were tried, and the places of those that no test noticed."""
    every = list(mutants())
    chosen = random.Random(seed).sample(every, min(cases, len(every)))
    return len(chosen), survivors_of(chosen)


def survivors_of(chosen: Sequence[Mutant]) -> list[str]:
    """Try mutants, and return the places of those that no test noticed."""
    left, broken = list[str](), list[str]()
    for module in dict.fromkeys(one.module for one in chosen):
        some = {one.number: one.where for one in chosen if one.module == module}
        found = noticed(module, list(some), MODULES[module])
        broken += [module] if found[-1] else []
        left += [where for number, where in some.items() if not found.get(number)]
    if broken:
        raise SystemExit(f"the tests of {', '.join(broken)} fail without a change")
    return left


def main() -> int:
    match sys.argv[1:]:
        case ["--load", module, number, *tests]:
            return load(module, int(number), tests)
        case ["--fork", answers, module, numbers, *tests]:
            return fork(Path(answers), module, [int(number) for number in numbers.split(",")], tests)
        case _:
            pass
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=MODULES, metavar="MODULE", help="try all mutants of this module")
    given = parser.parse_args()
    began = time.monotonic()
    if given.only:
        chosen = [one for one in mutants() if one.module == given.only]
        tried, left = len(chosen), survivors_of(chosen)
    else:
        tried, left = survivors(given.mutants, given.seed)
    print("\n".join(left))
    print(f"{tried} mutants, {len(left)} survived, {time.monotonic() - began:.0f} s")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
