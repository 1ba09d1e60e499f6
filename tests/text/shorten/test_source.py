"""Source code by its outline."""

import pytest

from foveal.text.guard import plain
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import trim
from foveal.text.shorten.languages import definition_patterns
from foveal.text.shorten.source import fits, shrink

REF = "k3v9x2m1qa"


def count(text: str) -> int:
    return (len(text) + 3) // 4


def module(functions: int = 60) -> str:
    body = "".join(
        f"def operation_{i}(left, right):\n    total = left + right\n    for step in range(total):\n"
        "        total -= step\n    return total\n\n\n"
        for i in range(functions)
    )
    return f'"""A module."""\n\nimport os\nimport sys\n\n\n{body}'


def test_definitions_are_shown_and_bodies_left_out():
    """The outline of a module is its definitions, and the marks say which lines are missing."""
    text = module()
    assert fits(text, 'read {"path": "a.py"}')
    shown = plain(shrink(text, Allowance(400, count, REF)) or "")
    assert shown.count("def operation_") >= 15
    assert "[… 8-13]" in shown


def test_line_numbers_of_the_source_are_kept():
    """Lines that came with numbers keep them, and need no numbers in the marks."""
    text = "\n".join(f"{i:>6}→{line}" for i, line in enumerate(module().split("\n"), 1))
    shown = plain(shrink(text, Allowance(400, count, REF)) or "")
    assert "     7→def operation_0(left, right):\n[…]\n" in shown


def test_what_was_asked_for_is_shown_with_its_neighbours():
    """A line in focus survives with the lines around it."""
    lines = module().split("\n")
    lines[200] = "    needle_value = compute_the_thing(left)"
    shown = plain(shrink("\n".join(lines), Allowance(150, count, REF, frozenset({"needle_value"}))) or "")
    assert lines[200] in shown
    assert lines[199] in shown


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("python", "    async def fetch(self, url):"),
        ("script", "export const useThing = (a: string) => {"),
        ("script", "  private async load(id: string): Promise<void> {"),
        ("script", "describe('pool', () => {"),
        ("go", "func (p *Pool) Get(ctx context.Context) (*Conn, error) {"),
        ("rust", "    pub(crate) async fn get(&self) -> Result<Conn> {"),
        ("jvm", "    public static <T> List<T> of(T one) {"),
        ("jvm", "data class Point(val x: Int, val y: Int)"),
        ("c", "static int pool_get(struct pool *p)"),
        ("ruby", "  def get(key)"),
        ("php", "    protected function get(string $key): ?Item"),
        ("shell", "install_tools() {"),
    ],
)
def test_definitions_are_known_in_many_languages(language, line):
    """One line of each language that opens a definition, with and without a line number."""
    assert definition_patterns()[language].match(line)
    assert definition_patterns()[language].match(f"    12→{line}")


@pytest.mark.parametrize(
    "line", ["    if (ready) {", "    return value;", "    x = compute(a, b)", "}", "    } else {"]
)
def test_statements_are_no_definitions(line):
    """Control flow and calls are not taken for definitions."""
    assert not any(
        definition_patterns()[name].match(line) for name in ("python", "script", "go", "rust", "ruby", "php")
    )


def test_prose_is_not_taken_for_code():
    """A text in sentences is left to another level."""
    text = "\n".join("The pool keeps connections open so that they can be used again." for _ in range(50))
    found = trim(text, "read notes.md", Allowance(100, count, REF))
    assert found is not None
    assert found[0] != "source"
