"""Pages name files of the repository: every one of them is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
CODE = re.compile(r"`((?:src|tests|benchmarks|scripts|docs)/[\w./<>-]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
WALK = re.compile(
    r"^ +((?:text|stores|project|summary|fit|dialects|record|writers|context|session|values)/[\w./<>]*)", re.M
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    """A path in code marks and the target of a link are those of a file or a folder."""
    text = page.read_text(encoding="utf-8")
    is_about_the_source = page.parent != ROOT / "docs"  # pages for users show paths of theirs
    named = [ROOT / path for path in CODE.findall(text) if is_about_the_source and "<" not in path]
    linked = [page.parent / path for path in LINK.findall(text)]
    assert [str(path) for path in (*named, *linked) if not path.exists()] == []


def test_the_walk_of_a_result_names_modules_that_exist() -> None:
    """The drawing in ARCHITECTURE.md is of the tree as it is."""
    walk = WALK.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert len(walk) > 12
    paths = [ROOT / "src" / "foveal" / path.replace("<provider>", "openai_chat") for path in walk]
    assert [str(path) for path in paths if not path.exists()] == []
