"""`scripts/check_results.py`: figures that are older than the code they speak of are told."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_results.py"


@pytest.fixture
def checker():
    spec = importlib.util.spec_from_file_location("check_results", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    """A repository of three files."""
    for name in ("src/foveal/a.py", "benchmarks/run.py", "benchmarks/results/run.md", "benchmarks/results/old.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    return tmp_path


def test_results_are_stale_when_the_code_has_changed(checker, tree, capsys):
    """Unknown without a mark, current with one, stale after any change of the code, and the exit code says so."""
    assert checker.states(tree) == {"old.md": "unknown", "run.md": "unknown"}
    assert checker.main(["--mark", "run.md"], tree) == 0
    assert checker.states(tree) == {"old.md": "unknown", "run.md": "current"}
    (tree / "src/foveal/a.py").write_text("2\n")
    assert checker.main([], tree) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "stale    run.md"
    assert checker.main(["--mark", "old.md"], tree) == 0, "marking one file says nothing of the others"
    (tree / "src/foveal/a.py").write_text("1\n")
    assert checker.states(tree) == {"old.md": "stale", "run.md": "current"}


def test_results_of_the_engine_do_not_depend_on_the_rooms_around_it(checker, tree):
    """A change of the gateway makes its own figures stale, and leaves those of the engine as they are."""
    (tree / "src/foveal/gateway").mkdir()
    (tree / "benchmarks/results/gateway.md").write_text("1\n")
    assert checker.main(["--mark", "run.md", "gateway.md"], tree) == 0
    (tree / "src/foveal/gateway/page.py").write_text("1\n")
    assert checker.states(tree) == {"gateway.md": "stale", "old.md": "unknown", "run.md": "current"}


def test_a_file_that_is_not_there_cannot_be_marked(checker, tree):
    """A typing error does not become a mark."""
    with pytest.raises(SystemExit, match=r"there is no run\.dm"):
        checker.main(["--mark", "run.dm"], tree)
