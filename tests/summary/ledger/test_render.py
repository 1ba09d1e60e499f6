"""The ledger as text, and whether a text still holds it."""

import json

import msgspec
import pytest

from foveal.summary.ledger import EMPTY, Ledger, LedgerStep, render, update
from foveal.summary.ledger.items import (
    LedgerCommand,
    LedgerFailure,
    LedgerFile,
    LedgerQuestion,
    Quote,
    Todo,
)
from foveal.summary.ledger.render import group_by_directory
from foveal.values.entry import Message, ToolCall, assistant, result, user


def count(text: str) -> int:
    return len(text.split())


FULL = Ledger(
    quotes=(Quote(text="never push", why="rule", ref="a1"),),
    todos=(Todo("write", "completed"), Todo("test", "in_progress"), Todo("ship", "blocked")),
    failures=(LedgerFailure(name="t::one", line="boom", ref="a2"), LedgerFailure(name="t::two", resolved="a3")),
    files=(
        LedgerFile(path="/src/a.py", spans=((1, 200), (240, 260)), seq=2),
        LedgerFile(path="/src/b.py", change="edited", seq=1),
        LedgerFile(path="/src/c.py", change="edited", seq=3),
    ),
    commands=(LedgerCommand(text="make", outcome="failed", exit=2, error="no rule", uses=3),),
    questions=(LedgerQuestion(text="Which?"),),
)


def test_sections_stand_in_order_of_worth() -> None:
    """Words of the user first; resolved failures are gone; one line a command, one line a directory."""
    assert render(FULL, 1_000, count) == (
        "## User said\n- “never push” [a1]\n"
        "## Todos\n- [x] write\n- [~] test\n- [blocked] ship\n"
        "## Open failures\n- t::one: boom [a2]\n"
        "## Files changed\n- /src/: c.py, b.py\n"
        "## Files read\n- /src/a.py:1-200,240-260\n"
        "## Commands\n- `make` exit 2 ×3: no rule\n"
        "## Open questions\n- Which?"
    )


def test_who_is_quoted_is_said() -> None:
    """The user is not taken for the operator."""
    quotes = (
        Quote(text="be brief", why="rule", ref="a1", seq=1),
        Quote(text="be kind", why="rule", ref="a2", by="operator"),
    )
    assert render(Ledger(quotes=quotes), 100, count) == "## User said\n- “be brief” [a1]\n- operator: “be kind” [a2]"


def test_an_empty_ledger_renders_as_nothing() -> None:
    """Empty sections leave no heading."""
    assert render(EMPTY, 1_000, count) == ""


@pytest.mark.parametrize("tokens", [0, 1, 5, 20, 60])
def test_never_more_than_asked_for(tokens: int) -> None:
    """The text never takes more tokens than allowed, by the counter that was given."""
    files = tuple(LedgerFile(path=f"/src/module_{n}/file.py", seq=n, change="edited") for n in range(40))
    assert count(render(msgspec.structs.replace(FULL, files=files), tokens, count)) <= tokens


def test_what_was_left_out_is_said() -> None:
    """The newest stay, the number of the others is told."""
    files = tuple(LedgerFile(path=f"/src/m{n}/f.py", seq=n) for n in range(40))
    assert render(Ledger(files=files), 60, count).split("\n") == [
        "## Files read",
        *(f"- /src/m{n}/f.py" for n in (39, 38, 37, 36, 35, 34)),
        "… and 34 more files",
    ]


def test_paths_are_grouped_by_directory() -> None:
    """A path alone in its directory stays whole."""
    assert group_by_directory(["/a/x.py:1-2", "/b/z.py", "/a/y.py", "w.py"]) == [
        "- /a/: x.py:1-2, y.py",
        "- /b/z.py",
        "- w.py",
    ]


def worked() -> Ledger:
    def edit(at: int, path: str) -> tuple[Message, Message]:
        arguments = json.dumps({"file_path": path, "old_string": "do_it", "new_string": "do_that"})
        return assistant("", ToolCall(f"c{at}", "Edit", arguments)), result(f"c{at}", "done")

    messages = (user("go"), *edit(1, "/src/a.py"), *edit(2, "/src/b.py"))
    return update(EMPTY, [LedgerStep(f"r{at}", message, at) for at, message in enumerate(messages)])
