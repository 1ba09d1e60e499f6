"""Rules of the surface: the names that users may rely on, the cost of an import, and the things that no module may do."""

import ast
import inspect
import re
import subprocess
import sys

import msgspec
import pytest

import foveal

from .rules import ROOT, imported_modules, sources

MODULES = sources()
YAML_READER = "text.plain_yaml"
"""The one module that imports YAML."""
REGISTRIES = re.compile(
    "|".join(("pypi" + r"\.org", "files.python" + "hosted", "registry.npm" + "js", "deb." + "debian"))
)

PUBLIC_NAMES = [
    "AsyncSession",
    "BadInput",
    "BudgetTable",
    "ContextOverflow",
    "Entry",
    "Environment",
    "FenceKind",
    "File",
    "FovealError",
    "Host",
    "Image",
    "Message",
    "MissingExtra",
    "Model",
    "NextCall",
    "NotFound",
    "Note",
    "OverBudget",
    "Pin",
    "Policy",
    "Prompt",
    "Question",
    "RetentionRule",
    "Session",
    "SessionHeld",
    "StoreError",
    "Text",
    "ToolCall",
    "ToolResult",
    "Trace",
    "Unpin",
    "Usage",
    "assistant",
    "errors",
    "events",
    "keep_stream",
    "open_store",
    "read_policy",
    "result",
    "retain",
    "rules_of",
    "stages",
    "system",
    "user",
    "wrap",
]


VERBS = ["append", "close", "extend", "follow", "prompt", "recall", "serve", "why"]
PARTS = {
    "branches": ["rewind"],
    "children": ["open"],
    "compaction": ["fold", "forget_limit", "pressure", "recover"],
    "context": ["attach", "fence_kind", "forget", "inject", "mentioned", "remember", "remind"],
}
"""The parts of a session, each with its verbs."""


def test_public_names_are_pinned():
    """A name enters or leaves the public surface only on purpose, and there are at most 45."""
    assert sorted(foveal.__all__) == sorted(PUBLIC_NAMES)
    assert all(hasattr(foveal, name) for name in PUBLIC_NAMES)
    assert len(PUBLIC_NAMES) <= 45


@pytest.mark.parametrize("kind", [foveal.Session, foveal.AsyncSession])
def test_a_session_has_eight_verbs_and_seven_parameters(kind):
    """A user learns eight verbs; whatever else a session can do is grouped in its parts."""
    public = [name for name, value in vars(kind).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert sorted(public) == VERBS
    assert len(inspect.signature(kind).parameters) <= 7


def test_both_sessions_have_the_same_parts_and_the_same_parameters():
    """What is learned with one session is known of the other."""
    assert (
        inspect.signature(foveal.Session).parameters.keys() == inspect.signature(foveal.AsyncSession).parameters.keys()
    )
    plain = foveal.Session(foveal.open_store(), "plain", model="gpt-5")
    waiting = foveal.AsyncSession(foveal.open_store(), "waiting", model="gpt-5")
    for part, verbs in PARTS.items():
        assert _verbs(getattr(plain, part)) == verbs
        assert set(_verbs(getattr(waiting, part))) == set(verbs) - {"fence_kind"}


def _verbs(part):
    return sorted(name for name, value in vars(type(part)).items() if inspect.isfunction(value) and name[0] != "_")


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


@pytest.mark.parametrize("module", ["pickle", "shelve", "marshal", "yaml"])
def test_nothing_is_revived_from_data(module):
    """No module that can run code from data is imported, but YAML where policies are read."""
    users = [one.name for one in MODULES if module in {name.split(".")[0] for name in imported_modules(one.tree)}]
    assert users == ([YAML_READER] if module == "yaml" else [])


def test_yaml_is_read_by_a_safe_loader_alone():
    """Of YAML, the one loader is a subclass of the safe one; no function that takes a loader or picks its own is named."""
    tree = next(one.tree for one in MODULES if one.name == YAML_READER)
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
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                assert name not in {"eval", "exec"}, module.name
                assert not any(word.arg == "shell" for word in node.keywords), module.name


def test_no_registry_host_is_named():
    """The repository names no package registry."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    paths = [ROOT / name for name in tracked if name] or [path for path in ROOT.rglob("*") if ".venv" not in path.parts]
    found = [
        str(path)
        for path in paths
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ""} and path.is_file()
        if REGISTRIES.search(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []
