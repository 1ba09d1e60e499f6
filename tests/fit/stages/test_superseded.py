"""Stale results fold first, with a pointer to what is newer; what is not certainly stale stays."""

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.fit.scene import Remembered, Scene
from foveal.fit.stages import superseded
from foveal.session.policy import Superseded
from foveal.session.session import Session
from foveal.testing.builders import open_session
from foveal.values.entry import Fold, Message, PartFold, Pin, Status, Text, ToolCall, ToolResult, user
from foveal.values.shown import NOTHING

FILE = [f"value_{n} = compute({n})" for n in range(1, 401)]


class Desk:
    """A session in which files are read and changed; calls are named by their number."""

    def __init__(self) -> None:
        self.session: Session = open_session()
        self.session.append(user("Fix the bug."))
        self.results: list[str] = []
        self._numbers = count()

    def call(self, tool: str, result: str, /, *, status: Status = "ok", **arguments: object) -> "Desk":
        call_id = f"c{next(self._numbers)}"
        self.session.append(Message("assistant", (ToolCall(call_id, tool, json.dumps(arguments)),)))
        self.results.append(self.session.append(Message("tool", (ToolResult(call_id, (Text(result),), status),))).id)
        return self

    def read(self, first: int = 1, last: int = 400, path: str = "/w/a.py") -> "Desk":
        whole = (first, last) == (1, 400)
        span: dict[str, Any] = {} if whole else {"offset": first, "limit": last - first + 1}
        return self.call(
            "Read", "\n".join(f"{n:6}→{FILE[n - 1]}" for n in range(first, last + 1)), file_path=path, **span
        )

    def edit(self, path: str = "/w/a.py", result: str = "The file has been updated.", status: Status = "ok") -> "Desk":
        text = "\n".join(FILE[:60])
        return self.call("Edit", result, status=status, file_path=path, old_string="x", new_string=text)

    def stale(self, stage: Superseded | None = None) -> list[int]:
        """The numbers of the calls whose results are proposed to fold, in the order of the proposals."""
        return [self.results.index(fold.entry) for fold in self.folds(stage) if fold.entry in self.results]

    def folds(self, stage: Superseded | None = None):
        return list((stage or Superseded())(Scene(self.session.view, 10_000, NOTHING)))


def test_a_read_that_is_made_again_is_stale() -> None:
    """The earlier result of the same call folds and names the newer one; the newest stays."""
    desk = Desk().read().read()
    (fold,) = desk.folds()
    assert desk.stale() == [0]
    assert fold.level == "reference"
    assert f"newer: {desk.results[1][:10]}" in fold.text


def test_a_range_inside_a_later_read_is_stale() -> None:
    """Lines 100-200, then the whole file: the first shows nothing that the second does not."""
    assert Desk().read(100, 200).read().stale() == [0]


def test_a_range_that_later_reads_only_overlap_stays() -> None:
    """Lines 1-200, then 150-400: lines 1-149 are shown nowhere else."""
    assert Desk().read(1, 200).read(150, 400).stale() == []


def test_a_range_that_later_reads_cover_together_is_stale() -> None:
    """Lines 50-250, then 1-150 and 151-400: all of it is shown again, in two places."""
    assert Desk().read(50, 250).read(1, 150).read(151, 400).stale() == [0]


def test_a_hole_between_later_reads_keeps_the_earlier() -> None:
    """Lines 50-250, then 1-150 and 160-400: lines 151-159 would be lost from view."""
    assert Desk().read(50, 250).read(1, 150).read(160, 400).stale() == []


def test_other_files_do_not_count() -> None:
    """A read of another path covers nothing."""
    assert Desk().read().read(path="/w/b.py").stale() == []


def test_spellings_of_one_path_are_one_file() -> None:
    """Detours in a path do not make it another file."""
    assert Desk().read(1, 50).read(path="/w/./src/../a.py").stale() == [0]


def test_an_edit_makes_earlier_reads_stale() -> None:
    """What was read before the edit is out of date; the note points to the edit."""
    desk = Desk().read().edit()
    assert desk.stale() == [0]
    assert desk.folds()[0].because == "/w/a.py was changed later"
    assert desk.stale(Superseded(edited=False)) == []


def test_what_is_shown_elsewhere_goes_before_what_is_out_of_date() -> None:
    """An outdated read may be the only place that shows its lines, so it is proposed last."""
    desk = Desk().read(path="/w/old.py").edit("/w/old.py").read().read()
    assert desk.stale() == [2, 0]


def test_a_read_after_the_edit_is_what_the_earlier_read_points_to() -> None:
    """With a newer read of the lines, that is the pointer and not the edit."""
    desk = Desk().read(1, 100).edit().read()
    result = next(fold for fold in desk.folds() if fold.entry == desk.results[0])
    assert f"newer: {desk.results[2][:10]}" in result.text


def test_what_an_edit_wrote_is_stale_once_the_file_is_read_whole() -> None:
    """The arguments of the edit are shortened, and stay a JSON object that names the file."""
    desk = Desk().edit().read()
    assert desk.folds() == []
    (fold,) = desk.folds(Superseded(written=True))
    assert fold.entry not in desk.results
    assert json.loads(fold.text)["file_path"] == "/w/a.py"


def test_what_an_edit_wrote_stays_if_only_a_part_is_read() -> None:
    """A range need not hold what was written."""
    assert Desk().edit().read(1, 100).folds(Superseded(written=True)) == []


def test_what_was_written_is_stale_once_the_file_is_written_again() -> None:
    """A later write replaces all of the earlier one."""
    text = "\n".join(FILE[:80])
    desk = (
        Desk()
        .call("Write", "ok", file_path="/w/a.py", content=text)
        .call("Write", "ok", file_path="/w/a.py", content=text + "\n")
    )
    (fold,) = desk.folds(Superseded(written=True))
    assert fold.entry not in desk.results


@pytest.mark.parametrize(
    "failure",
    [
        "<tool_use_error>String to replace not found in file.",
        "Process exited with code 1\nOutput:\n",
        "Error: no match",
    ],
)
def test_an_edit_that_failed_makes_nothing_stale(failure: str) -> None:
    """Failures are recognised by status and by the words that tools report them with."""
    assert Desk().read().edit(result=failure).stale() == []
    assert Desk().read().edit(status="error").stale() == []
    assert Desk().read().edit(status="interrupted").stale() == []


def test_a_read_that_failed_replaces_nothing() -> None:
    """The same call again, but it failed: the earlier result stays."""
    desk = Desk().read().call("Read", "permission denied " * 40, status="error", file_path="/w/a.py")
    assert desk.stale() == []


def test_a_read_that_failed_is_replaced_by_one_that_did_not() -> None:
    """An error about a file that was read later tells nothing any more."""
    desk = Desk().call("Read", "permission denied " * 40, status="error", file_path="/w/a.py", offset=7).read()
    assert desk.stale() == [0]


def test_an_identical_call_of_any_tool_is_stale() -> None:
    """Same tool, same arguments, same words: only the newest result counts, whatever it did."""
    long = "line of output\n" * 40
    desk = Desk().call("Bash", long, command="go test ./...").call("Bash", long, command="go test ./...")
    assert desk.stale() == [0]


def test_a_command_that_says_something_else_is_out_of_date_and_not_shown_elsewhere() -> None:
    """What only the earlier run told goes after all that later results show, and not where nothing may be lost."""
    first, again = "\n".join(f"FAILED test_{n}" for n in range(60)), "60 passed\n" * 40
    desk = Desk().call("Bash", first, command="go test ./...").call("Bash", again, command="go test ./...")
    assert desk.stale(Superseded(edited=False)) == []
    assert desk.stale() == [0]


def test_a_file_that_was_changed_in_between_is_not_shown_by_its_later_read() -> None:
    """Its old lines stand nowhere else, although the same range was read again."""
    desk = Desk().read().edit()
    desk.call("Read", "\n".join(f"{n:6}→changed_{n} = 0" for n in range(1, 401)), file_path="/w/a.py")
    assert desk.stale(Superseded(edited=False)) == []
    assert desk.stale() == [0]


def test_asking_a_process_for_more_is_no_repetition() -> None:
    """Each answer holds what came since the last: none replaces another."""
    long = "line of output\n" * 40
    desk = Desk().call("write_stdin", long, session_id=1).call("write_stdin", long, session_id=1)
    assert desk.stale() == []


def test_a_rename_makes_reads_of_both_paths_stale() -> None:
    """Neither path holds any more what was read there."""
    desk = Desk().read(path="/w/a.py").read(path="/w/b.py").call("bash", "", command="mv /w/a.py /w/b.py")
    assert desk.stale() == [0, 1]


def test_shell_reads_and_tools_know_each_other() -> None:
    """`sed -n` of lines that a reading tool shows later is stale."""
    text = "\n".join(FILE[9:60])
    desk = Desk().call("exec_command", text, cmd="sed -n '10,60p' a.py", workdir="/w").read()
    assert desk.stale() == [0]


def test_fewer_lines_than_asked_for_are_all_there_are() -> None:
    """`sed -n 1,260p` that prints 40 lines has shown the whole file, and a later 1,220 shows all of it again."""
    text = "\n".join(FILE[:40])
    desk = Desk()
    for last in (260, 220):
        desk.call("bash", text, command=f"sed -n '1,{last}p' /w/a.py")
    assert desk.stale() == [0]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(FILE[:50]) + "\n…900 tokens truncated…\n" + FILE[-1],
        "\n".join(FILE[:50]) + "\n[350 more lines in file. Use offset=51]",
    ],
)
def test_a_result_that_was_cut_covers_nothing(text: str) -> None:
    """A read of the whole file whose output was truncated does not show the lines of an earlier one."""
    desk = (
        Desk()
        .call("bash", "\n".join(FILE[99:200]), command="sed -n '100,200p' /w/a.py")
        .call("bash", text, command="cat /w/a.py")
    )
    assert desk.stale() == []


def test_two_thousand_lines_need_not_be_the_whole_file() -> None:
    """Reading tools stop there; an earlier read of later lines stays."""
    lines = "\n".join(f"{n:6}→x{n}" for n in range(1, 2001))
    later = "\n".join(f"{n:6}→x{n}" for n in range(2500, 2600))
    desk = (
        Desk().call("Read", later, file_path="/w/a.py", offset=2500, limit=100).call("Read", lines, file_path="/w/a.py")
    )
    assert desk.stale() == []


def test_several_files_in_one_result_must_all_be_stale() -> None:
    """`cat a b` stays as long as one of them is shown nowhere else."""
    both = "\n".join(FILE)
    desk = Desk().call("bash", both, command="cat /w/a.py /w/b.py").read()
    assert desk.stale() == []
    assert desk.read(path="/w/b.py").stale() == [0]


def test_a_search_is_never_stale_by_a_read() -> None:
    """What a search found is a selection of its own."""
    assert Desk().call("Grep", "a.py:1: value\n" * 40, pattern="v", path="/w/a.py").read().edit().stale() == [1]


def test_what_is_shown_in_part_covers_nothing() -> None:
    """A newer read that was itself cut by a fold does not replace an earlier one that is whole."""
    desk = Desk().read(100, 200).read()
    view = desk.session.view.copy()
    scene = Scene(view, 10_000, NOTHING)
    view.transcript.apply(
        [scene.fold((desk.results[1], 0), "head", level="trimmed", policy="shorten", because="large")]
    )
    assert list(Superseded()(scene)) == []


def test_pins_are_never_stale() -> None:
    """A pinned result stays whole, whatever was read since."""
    desk = Desk().read().read()
    desk.session.append(Pin(desk.results[0]))
    assert desk.folds() == []


def test_small_results_are_left_alone() -> None:
    """A reference would hardly be shorter."""
    assert Desk().read(1, 2).read(1, 2).folds() == []


def test_a_second_search_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings about a result hold as long as it is shown: they are made once."""
    desk, read, remembered = Desk(), list[object](), Remembered()
    for number in range(20):
        desk.read(path=f"/w/{number}.py")
    real = superseded.lines_shown
    monkeypatch.setattr(superseded, "lines_shown", lambda result, access: read.append(result) or real(result, access))

    def search() -> list[PartFold]:
        read.clear()
        return list(Superseded()(Scene(desk.session.view, 10_000, NOTHING, remembered=remembered)))

    assert search() == []
    assert len(read) == 20
    assert search() == read == []
    desk.read(path="/w/3.py")
    assert [fold.entry for fold in search()] == [desk.results[3]]
    assert len(read) == 1


@settings(max_examples=40, deadline=None)
@given(
    calls=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.lists(st.integers(0, 5), max_size=6)),
        min_size=2,
        max_size=14,
    )
)
def test_what_is_remembered_changes_no_fold(calls: list[tuple[int, int, list[int]]]) -> None:
    """A search with the memory of all searches before proposes what a search without any proposes, folds in between or not."""
    desk, remembered, stage = Desk(), Remembered(), Superseded()
    for number, (tool, path, lines) in enumerate(calls):
        name = ("Read", "bash", "Edit", "write_stdin")[tool]
        arguments: dict[str, Any] = {"command": f"cat /w/{path}.py"} if tool == 1 else {"file_path": f"/w/{path}.py"}
        desk.call(name, "\n".join(f"line {line} " + "word " * 40 for line in lines), **arguments)
        plain = desk.folds()
        assert list(stage(Scene(desk.session.view, 10_000, NOTHING, remembered=remembered))) == plain
        if number % 5 == 4 and plain:
            desk.session.append(Fold(tuple(plain[:1]), "test", 0, 0, 0))
