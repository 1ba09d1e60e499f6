"""House rules that a reviewer would otherwise have to remember."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import foveal

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FILE_LINES = 600
FUNCTION_LINES = 60
PUBLIC_METHODS = 8
BANNED_NAMES = re.compile(r"Manager|Handler|Helper|Util|Base|Impl|Info")
REGISTRIES = re.compile(
    "|".join(("pypi" + r"\.org", "files.python" + "hosted", "registry.npm" + "js", "deb." + "debian"))
)

PUBLIC_NAMES = [
    "AsyncSession",
    "BadEntry",
    "BadInput",
    "BadPolicy",
    "BadRecording",
    "Budget",
    "BudgetTable",
    "Clear",
    "Compact",
    "CompactionEnded",
    "CompactionStarted",
    "ContextOverflow",
    "Entry",
    "Environment",
    "Expired",
    "FenceKind",
    "File",
    "Fold",
    "FovealError",
    "History",
    "Image",
    "Images",
    "Instructions",
    "InvalidPrompt",
    "LeaseLost",
    "Mentioned",
    "Message",
    "MissingExtra",
    "NextCall",
    "NotFound",
    "Note",
    "Opaque",
    "Outline",
    "OverBudget",
    "Pin",
    "Policy",
    "Pressure",
    "Prompt",
    "Question",
    "RedactedThinking",
    "RetentionRule",
    "SchemaTooNew",
    "Session",
    "SessionHeld",
    "Shorten",
    "Skills",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "Stored",
    "Summarise",
    "SummaryFailed",
    "SummaryRefused",
    "Superseded",
    "Text",
    "Thinking",
    "ThinkingWindow",
    "ToolCall",
    "ToolResult",
    "Trace",
    "TraceLine",
    "UnknownModelWarning",
    "Unpin",
    "Unrepresentable",
    "Usage",
    "Workspace",
    "assistant",
    "keep_stream",
    "open_store",
    "read_policy",
    "read_weights",
    "result",
    "retain",
    "rules_of",
    "system",
    "toolbox",
    "user",
]


def trees():
    for path in SOURCES:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def test_public_names_are_pinned():
    """A name enters or leaves the public surface only on purpose."""
    assert sorted(foveal.__all__) == sorted(PUBLIC_NAMES)
    assert all(hasattr(foveal, name) for name in PUBLIC_NAMES)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_files_stay_short(path):
    """No file is longer than one can hold in mind."""
    assert path.read_text(encoding="utf-8").count("\n") <= FILE_LINES


def test_functions_stay_short():
    """No function is longer than a screen."""
    long = [
        f"{path.name}:{node.lineno} {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno > FUNCTION_LINES
    ]
    assert long == []


def test_classes_have_few_public_methods():
    """No class needs section headings. A contract suite is a list of tests, not an object; `Database` is the part of SQLite's
    own interface that is used; a session is the one object that users hold."""
    large = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ClassDef)
                and not node.name.endswith("Contract")
                and node.name not in {"Database", "Session", "AsyncSession"}
            ):
                public = [
                    child
                    for child in node.body
                    if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not child.name.startswith("_")
                    and not any(
                        isinstance(m, ast.Name) and m.id in ("property", "classmethod") for m in child.decorator_list
                    )
                ]
                if len(public) > PUBLIC_METHODS:
                    large.append(f"{path.name}: {node.name} has {len(public)}")
    assert large == []


def test_names_say_what_a_thing_is():
    """No Manager, Handler, Helper, Util, Base, Impl or Info in a class name."""
    found = [
        f"{path.name}: {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and BANNED_NAMES.search(node.name)
    ]
    assert found == []


def test_public_values_are_frozen():
    """Nobody can change a value that somebody else holds."""
    structs = [value for name in foveal.__all__ if inspect.isclass(value := getattr(foveal, name))]
    loose = [s.__name__ for s in structs if issubclass(s, msgspec.Struct) and not s.__struct_config__.frozen]
    assert loose == []


def test_importing_does_nothing_heavy():
    """`import foveal` loads no database, no tokenizer, no network and no terminal library."""
    heavy = ("apsw", "splintr", "asyncio", "rich", "ssl", "http", "openai", "anthropic", "pydantic")
    code = f"import foveal, sys; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def imports(tree):
    """Every module that is imported, by a statement or by a call that names it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module):
                yield module or ""
            case ast.Call(
                ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"), [name, *_]
            ):
                yield name.value if isinstance(name, ast.Constant) else ast.unparse(name).strip("f'\"")
            case _:
                pass


@pytest.mark.parametrize("module", ["pickle", "shelve", "marshal", "yaml"])
def test_nothing_is_revived_from_data(module):
    """No module that can run code from data is imported, but YAML where policies are read."""
    users = [path for path, tree in trees() if module in {name.split(".")[0] for name in imports(tree)}]
    assert users == ([ROOT / "src/foveal/text/plain_yaml.py"] if module == "yaml" else [])


def test_yaml_is_read_by_a_safe_loader_alone():
    """Of YAML, the one loader is a subclass of the safe one; no function that takes a loader or picks its own is named."""
    tree = ast.parse((ROOT / "src/foveal/text/plain_yaml.py").read_text(encoding="utf-8"))
    assert [
        ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import) and "yaml" in ast.unparse(node)
    ] == ["import yaml"]
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml"]
    assert {node.attr for node in uses} == {"AliasEvent", "MappingNode", "Node", "SafeLoader", "YAMLError"}
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "yaml"]
    assert len(named) == len(uses)  # nowhere handed on under another name
    bases = [ast.unparse(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]
    assert bases == ["yaml.SafeLoader"]
    assert sum(node.attr == "SafeLoader" for node in uses) == 1  # and never as it is


def test_no_shell_and_no_eval():
    """Nothing builds a command line or evaluates text."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                assert name not in {"eval", "exec"}, path
                assert not any(word.arg == "shell" for word in node.keywords), path


def test_no_registry_host_is_named():
    """The repository names no package registry."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    paths = [ROOT / name for name in tracked if name] or SOURCES
    found = [
        str(path)
        for path in paths
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ""} and path.is_file()
        if REGISTRIES.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
