"""Users of other systems are led to names of ours: each one that the page has in code marks exists, and takes the parameters that
are shown with it."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

import foveal
from foveal.agent import Agent, Runs, ToolContext
from foveal.agent.agent_file import AgentTable
from foveal.agent.run_events import RunScope
from foveal.cli.chat_commands import ChatCommands
from foveal.cli.chat_session import QueueMode
from foveal.cli.parser import make_parser, subcommands
from foveal.fit.stages.compact import Compact
from foveal.gateway.openapi import openapi_document
from foveal.session.policy import BudgetTable, Policy

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| you had")]
TABLES = {"budget": BudgetTable, "compact": Compact}
MOST_CHARACTERS = 400


def cells_of(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


OURS = sorted({mark for row in ROWS for cell in cells_of(row)[1:] for mark in re.findall(r"`([^`]+)`", cell)})
"""The code marks of the second and third column; the first one has the names of the other systems."""


@cache
def defined() -> dict[str, list[str]]:
    """The modules that define each public class and function at their top level."""
    found: dict[str, list[str]] = {}
    for path, tree in _trees():
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(module)
    return found


@cache
def words() -> frozenset[str]:
    """The names of functions, parameters and fields, and the texts without a blank, that the source holds."""
    found: set[str] = set()
    for _, tree in _trees():
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                    found.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
                case ast.Constant(value=str() as text) if text and not re.search(r"\s", text):
                    found.add(text)
                case _:
                    pass
    return frozenset(found)


@cache
def _trees() -> list[tuple[Path, ast.Module]]:
    paths = sorted((SOURCE / "foveal").rglob("*.py"))
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


@cache
def values() -> dict[str, Any]:
    """The values by whose names the page calls methods and fields."""
    store = foveal.open_store()
    session = foveal.Session(store, "names", model="gpt-5")
    session.append(foveal.user("Which names are there?"))
    call = cast("Any", SimpleNamespace(session="names", run="names#1"))
    return {
        "session": session,
        "prompt": session.prompt(),
        "store": store,
        "runs": Runs(store),
        "agent": Agent(model="gpt-5"),
        "ctx": ToolContext(call, key="", call="", tool=""),
        "scope": RunScope("names", "names#1"),
    }


def candidates(node: ast.expr) -> Iterator[Any]:
    """Yield everything that a name, or a chain of names, may stand for."""
    match node:
        case ast.Name(id=name):
            if name in values():
                yield values()[name]
            for module in defined().get(name, ()):
                yield getattr(import_module(module), name)
            if name in ("foveal", "msgspec"):
                yield import_module(name)
        case ast.Attribute(value=owner, attr=name):
            for one in candidates(owner):
                if inspect.ismodule(one) and not hasattr(one, name):
                    yield import_module(f"{one.__name__}.{name}")
                else:
                    yield getattr(one, name)
        case _:
            raise AssertionError(f"{ast.unparse(node)} is no name")


def takes(function: Any, call: ast.Call) -> bool:
    """Return whether a function has the parameters that a call names, by keyword or in their place."""
    named = {one.arg for one in call.keywords} | {one.id for one in call.args if isinstance(one, ast.Name)}
    known = getattr(function, "__struct_fields__", None) or inspect.signature(function).parameters
    return named <= {*known}


def check_python(text: str) -> None:
    (statement,) = ast.parse(text.removeprefix("@").replace("…", "...")).body
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=table), attr=key)]):
            assert key in TABLES[table].__struct_fields__
        case ast.Assign(targets=[ast.Name(id=key)]):
            assert key in words()
        case ast.Expr(value=ast.Attribute(value=ast.Name(id=table), attr=key)) if table in TABLES:
            assert key in TABLES[table].__struct_fields__
        case ast.Expr(value=ast.Call() as call):
            assert any(takes(one, call) for one in candidates(call.func)), f"nothing takes {text}"
        case ast.Expr(value=node):
            assert list(candidates(node)), f"nothing is named {text}"
        case _:
            raise AssertionError(f"{text} is no name, call or setting")


def check_command(said: list[str]) -> None:
    command, rest = make_parser(said[:1]), said
    while rest and rest[0] in subcommands(command):
        command, rest = subcommands(command)[rest[0]], rest[1:]
    options = [word for word in rest if word.startswith("-")]
    verbs = rest[: rest.index(options[0])] if options else rest  # words behind an option are its value
    assert all(word in command.format_help() for word in (*options, *verbs))


def check_chat(said: list[str]) -> None:
    assert said[0] in ChatCommands(cast("Any", None)).table
    assert set(said[1:]) <= {*get_args(QueueMode)}


def check(mark: str) -> None:
    if mark in words() or re.fullmatch(r"[A-Z./]+", mark):  # a name, or a place that the reader fills in
        return
    if mark.startswith("foveal "):
        check_command(shlex.split(mark)[1:])
    elif mark.startswith("/"):
        check_chat(mark[1:].split())
    elif mark.startswith("GET "):
        assert "get" in openapi_document()["paths"][mark.removeprefix("GET ")]
    elif mark.startswith("--"):
        check_command(["run", mark])
    elif table := re.match(r"\[+(\w+)", mark):
        assert table[1] in {*Policy.__struct_fields__, *AgentTable.__struct_fields__}
    else:
        check_python(mark)


@pytest.mark.parametrize("mark", OURS)
def test_a_name_of_ours_exists(mark: str) -> None:
    """A Python name, a command, an address or a key of a policy that the page leads to is there."""
    check(mark)


WRONG = (
    "foveal runs explode",
    "foveal why --price",
    "--explode",
    "/explode",
    "GET /explosions",
    "session.compaction.explode",
    "Agent.explode",
    "Explode",
    "Limits(most_steps=5)",
    "runs.cancel(run, blast)",
    "budget.explode",
    "explode = 5",
    "[[explosions]]",
)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_name_that_is_not_there_is_found_out(wrong: str) -> None:
    """The check of the names can fail, in each form that the page writes names in."""
    with pytest.raises((AssertionError, AttributeError, KeyError, ImportError)):
        check(wrong)


def test_the_rows_can_be_read() -> None:
    """Each row has three cells on at most two lines of a wide screen; where something is missing, it says why."""
    assert len(ROWS) > 250
    for row in ROWS:
        assert len(cells_of(row)) == 3, row
        assert len(row) <= MOST_CHARACTERS, row
        assert cells_of(row)[2] or "**missing**" not in row, row
