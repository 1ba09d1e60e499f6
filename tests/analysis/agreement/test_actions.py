"""When two replies agree, and what a call is about."""

import json

import pytest

from foveal.analysis.agreement.actions import LIKENESSES, agree, next_actions, target_of
from foveal.values.entry import ToolCall


def call(tool, **arguments):
    return ToolCall("c", tool, json.dumps(arguments))


def alike(one, other):
    return [likeness for likeness in LIKENESSES if agree(one, other, likeness)]


@pytest.mark.parametrize(
    ("made", "target"),
    [
        (call("Read", file_path="/repo/src/./a.py", offset=3), "/repo/src/a.py"),
        (call("Edit", old_string="x", file_path="a.py"), "a.py"),
        (call("Bash", command="cd /repo && LANG=C timeout 60 ./bin/pytest -q tests | tail"), "pytest"),
        (call("Bash", command="sudo -E git status"), "git"),
        (call("shell", command=["bash", "-lc", "rg -n needle src"]), "rg"),
        (call("Bash", command="echo $(date"), "echo"),
        (call("apply_patch", input="*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch"), "a.py"),
        (call("weather", days=3, city="  Bern \n"), "Bern"),
        (call("upload", retries=2, path="out.csv"), "out.csv"),
        (call("clock"), ""),
        (ToolCall("c", "sql", "select 1"), ""),
    ],
)
def test_a_call_is_about_its_file_its_program_or_its_first_text(made, target):
    """The target is the path, the program that does the work, else the first text among the arguments."""
    assert target_of(made) == target


def test_each_likeness_holds_the_one_before_it():
    """Another range of the same file is the same target; another file is the same tool; another tool is nothing."""
    read = next_actions([call("Read", file_path="a.py", offset=1)], "")
    assert alike(read, next_actions([call("Read", offset=1, file_path="a.py")], "said")) == list(LIKENESSES)
    assert alike(read, next_actions([call("Read", file_path="a.py", offset=9)], "")) == ["tool", "target"]
    assert alike(read, next_actions([call("Read", file_path="b.py", offset=1)], "")) == ["tool"]
    assert alike(read, next_actions([call("Write", file_path="a.py", offset=1)], "")) == []
    assert alike(read, next_actions([], "I am done.")) == []


def test_calls_agree_in_any_order_and_only_if_they_are_as_many():
    """Parallel calls have no order, and doing it twice is not doing it once."""
    one, two = call("Read", file_path="a.py"), call("Read", file_path="b.py")
    assert alike(next_actions([one, two], ""), next_actions([two, one], "")) == list(LIKENESSES)
    assert alike(next_actions([one, one], ""), next_actions([one], "")) == []
    assert alike(next_actions([one, one], ""), next_actions([one, two], "")) == ["tool"]


def test_replies_without_a_call_agree_as_actions_whatever_they_say():
    """The next action is to answer; only the same words are the same arguments."""
    assert alike(next_actions([], "It is  done."), next_actions([], "It is done.")) == list(LIKENESSES)
    assert alike(next_actions([], "It is done."), next_actions([], "Finished.")) == ["tool", "target"]
