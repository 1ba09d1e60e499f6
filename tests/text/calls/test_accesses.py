"""Which files a tool call touches: the spellings of real agents, and what must not be guessed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.text.calls.access import clean_path
from foveal.text.calls.reads import accesses, locate_accesses
from foveal.text.calls.shell_words import pipelines
from foveal.values.entry import ToolCall


def call(tool: str, **arguments: object) -> ToolCall:
    return ToolCall("c1", tool, json.dumps(arguments))


def found(one: ToolCall) -> list[str]:
    """The accesses in one line each: `read a.py 1-20`."""
    return [_line(*access) for access in accesses(one)]


def _line(path: str, kind: str, first: int | None, last: int | None) -> str:
    lines = f" {first or ''}-{last or ''}" if first or last else ""
    return f"{kind} {path}{lines}"


TOOLS = [
    # Claude Code
    ("Read", {"file_path": "/w/a.py"}, ["read /w/a.py"]),
    ("Read", {"file_path": "/w/a.py", "offset": 280, "limit": 40}, ["read /w/a.py 280-319"]),
    ("Read", {"file_path": "/w/a.py", "offset": 390}, ["read /w/a.py 390-"]),
    ("Read", {"file_path": "/w/a.py", "limit": 200}, ["read /w/a.py 1-200"]),
    ("Read", {"file_path": "/w/a.py", "offset": 0, "limit": 10}, ["read /w/a.py 1-10"]),
    ("Read", {"file_path": "D:\\w\\src\\a.go"}, ["read d:/w/src/a.go"]),
    ("Write", {"file_path": "/w/a.py", "content": "x"}, ["write /w/a.py"]),
    ("Edit", {"file_path": "/w/a.py", "old_string": "a", "new_string": "b"}, ["edit /w/a.py"]),
    ("MultiEdit", {"file_path": "/w/a.py", "edits": []}, ["edit /w/a.py"]),
    ("NotebookEdit", {"notebook_path": "/w/n.ipynb", "new_source": "1"}, ["edit /w/n.ipynb"]),
    ("Glob", {"pattern": "**/*.py"}, ["list ."]),
    ("Glob", {"pattern": "*.py", "path": "/w/src"}, ["list /w/src"]),
    ("Grep", {"pattern": "x", "path": "/w/src"}, ["search /w/src"]),
    ("Grep", {"pattern": "x"}, ["search ."]),
    ("LS", {"path": "/w"}, ["list /w"]),
    ("Bash", {"command": "cat a.py", "description": "Look"}, ["read a.py"]),
    # Codex
    ("exec_command", {"cmd": "sed -n '1,20p' a.go", "workdir": "/w"}, ["read /w/a.go 1-20"]),
    ("shell", {"command": ["bash", "-lc", "cat a.go"], "workdir": "/w"}, ["read /w/a.go"]),
    ("shell", {"command": ["rg", "x"]}, []),
    ("functions.shell", {"cmd": "cat a.go"}, ["read a.go"]),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.go\n@@\n-x\n+y\n*** End Patch"}, ["edit a.go"]),
    (
        "apply_patch",
        {"input": "*** Begin Patch\n*** Add File: b.go\n+x\n*** Delete File: c.go\n"},
        ["write b.go", "write c.go"],
    ),
    ("apply_patch", {"patch": "*** Update File: a.go\n*** Move to: b.go\n"}, ["edit a.go", "write b.go"]),
    ("apply_patch", {"input": "no patch"}, []),
    # Pi
    ("read", {"path": "a.ts", "offset": 860, "limit": 200}, ["read a.ts 860-1059"]),
    ("edit", {"path": "a.ts", "oldText": "a", "newText": "b"}, ["edit a.ts"]),
    ("write", {"path": "a.ts", "content": "x"}, ["write a.ts"]),
    ("bash", {"command": "head -5 a.ts"}, ["read a.ts 1-5"]),
    # SWE-agent
    ("open", {"path": "a.py", "line_number": 1474}, ["read a.py"]),
    ("create", {"filename": "a.py"}, ["write a.py"]),
    ("edit", {"search": "a", "replace": "b"}, []),
    ("insert", {"text": "x"}, []),
    ("find_file", {"file_name": "a.py", "dir": "src"}, ["list src"]),
    ("bash", {"command": "open src/a.py 1474"}, ["read src/a.py"]),
    ("bash", {"command": "open src/a.py"}, ["read src/a.py"]),
    ("bash", {"command": "create a.py"}, []),
    ("bash", {"command": "edit 1:1\nx = 1\nend_of_edit"}, []),
    ("str_replace_editor", {"command": "view", "path": "/w/a.py"}, ["read /w/a.py"]),
    ("str_replace_editor", {"command": "view", "path": "/w/a.py", "view_range": [10, 20]}, ["read /w/a.py 10-20"]),
    ("str_replace_editor", {"command": "view", "path": "/w/a.py", "view_range": [10, -1]}, ["read /w/a.py 10-"]),
    ("str_replace_editor", {"command": "view", "path": "/w/a.py", "view_range": "10"}, []),
    ("str_replace_editor", {"command": "create", "path": "/w/a.py", "file_text": "x"}, ["write /w/a.py"]),
    ("str_replace_editor", {"command": "str_replace", "path": "/w/a.py", "old_str": "a"}, ["edit /w/a.py"]),
    ("str_replace_editor", {"command": "insert", "path": "/w/a.py", "insert_line": 3}, ["edit /w/a.py"]),
    ("str_replace_editor", {"command": "dance", "path": "/w/a.py"}, []),
    ("str_replace_based_edit_tool", {"command": "view", "path": "/w/a.py"}, ["read /w/a.py"]),
    # OpenHands, Gemini CLI, Cursor, Cline and others
    ("execute_bash", {"command": "cat a.py"}, ["read a.py"]),
    ("run_shell_command", {"command": "cat a.py", "directory": "/w"}, ["read /w/a.py"]),
    ("read_file", {"path": "a.py"}, ["read a.py"]),
    ("read_file", {"absolute_path": "/w/a.py", "offset": 0, "limit": 10}, ["read /w/a.py 1-10"]),
    (
        "read_file",
        {"target_file": "a.py", "start_line_one_indexed": 5, "end_line_one_indexed_inclusive": 9},
        ["read a.py 5-9"],
    ),
    ("read_file", {"target_file": "a.py", "should_read_entire_file": True, "start_line_one_indexed": 5}, ["read a.py"]),
    ("read_file", {"filePath": "a.py", "startLine": 5, "endLine": 9}, ["read a.py 5-9"]),
    ("read_file", {"file": "a.py", "offset": -20}, ["search a.py"]),
    ("read_file", {"file": "a.py", "offset": "30", "limit": "10"}, ["read a.py 30-39"]),
    ("read_file", {"path": 3}, []),
    ("read_file", {"paths": ["a.py", "b.py", 3]}, ["read a.py", "read b.py"]),
    ("view_file", {"filename": "a.py"}, ["read a.py"]),
    ("write_file", {"path": "a.py", "content": "x"}, ["write a.py"]),
    ("write_to_file", {"path": "a.py", "content": "x"}, ["write a.py"]),
    ("create_file", {"path": "a.py"}, ["write a.py"]),
    ("delete_file", {"path": "a.py"}, ["write a.py"]),
    ("edit_file", {"path": "a.py"}, ["edit a.py"]),
    ("replace_in_file", {"path": "a.py", "diff": "x"}, ["edit a.py"]),
    ("replace", {"file_path": "a.py", "old_string": "a"}, ["edit a.py"]),
    ("str_replace", {"path": "a.py"}, ["edit a.py"]),
    ("append_to_file", {"file_path": "a.py"}, ["edit a.py"]),
    ("move_file", {"source": "a.py", "destination": "b.py"}, ["write a.py", "write b.py"]),
    ("rename_file", {"old_path": "a.py", "new_path": "b.py"}, ["write a.py", "write b.py"]),
    ("list_dir", {"path": "src"}, ["list src"]),
    ("list_directory", {"dir_path": "src"}, ["list src"]),
    ("grep_search", {"query": "x"}, ["search ."]),
    ("mcp__files__read_file", {"path": "a.py"}, ["read a.py"]),
    ("functions.read_file", {"path": "a.py"}, ["read a.py"]),
    ("ReadFile", {"path": "a.py"}, ["read a.py"]),
    ("read-file", {"path": "a.py"}, ["read a.py"]),
    # Rovo Dev writes its arguments as lines
    ("open_files", {"input": "file_paths:\n- a.ts\n- b.ts"}, ["read a.ts", "read b.ts"]),
    ("inspect_code", {"input": "file_path: a.ts\nline_ranges:\n- - 0\n  - -1"}, ["read a.ts 1-"]),
    (
        "inspect_code",
        {"input": "file_path: a.ts\nline_ranges:\n- - 10\n  - 19\n- - 30\n  - 39"},
        ["read a.ts 11-20", "read a.ts 31-40"],
    ),
    ("inspect_code", {"input": "file_path: a.ts\npatterns:\n- main"}, ["search a.ts"]),
    ("find_and_replace_code", {"input": 'file_path: a.ts\nfind: "x"'}, ["edit a.ts"]),
    ("bash", {"input": "command: cd /w && cat a.ts\n  b.ts\ntimeout: 10"}, ["read /w/a.ts", "read /w/b.ts"]),
    ("bash", {"input": 'command: "cat a.ts\\nrm b.ts"'}, []),
    # Neither files nor known
    ("get_weather", {"path": "a.py"}, []),
    ("TodoWrite", {"todos": []}, []),
    ("WebFetch", {"url": "https://example.org/a.py"}, []),
    ("Read", {}, []),
    ("Read", {"file_path": ""}, []),
    ("Read", {"file_path": "a\nb"}, []),
    ("Read", {"file_path": "[… 900 characters left out; ref abc]"}, []),
]

COMMANDS = [
    ("cat a.py", ["read a.py"]),
    ("cat -n a.py", ["read a.py"]),
    ("cat a.py b.py", ["read a.py", "read b.py"]),
    ("cat 'my file.py'", ["read my file.py"]),
    ("cat my\\ file.py", ["read my file.py"]),
    ("/bin/cat ./a.py", ["read a.py"]),
    ("cat src//lib/../a.py", ["read src/a.py"]),
    ("cat a.py 2>/dev/null", ["read a.py"]),
    ("cat a.py 2>&1 || true", ["read a.py"]),
    ("cat a.py || cat b.py", []),
    ("sed -n '10,20p' a.py", ["read a.py 10-20"]),
    ('sed -n "10,20p" a.py', ["read a.py 10-20"]),
    ("sed -n 10,20p a.py", ["read a.py 10-20"]),
    ("sed -n '10p' a.py", ["read a.py 10-10"]),
    ("sed -n '10,$p' a.py", ["read a.py 10-"]),
    ("sed -n '1,5p;10,20p' a.py", ["read a.py 1-5", "read a.py 10-20"]),
    ("sed -n '1,5p;5q' a.py", ["read a.py 1-5"]),
    ("sed -n '/def/,/return/p' a.py", ["search a.py"]),
    ("sed -n '$p' a.py", ["search a.py"]),
    ("sed 's/a/b/' a.py", ["search a.py"]),
    ("sed -n '1,5p' a.py && sed -n '1,9p' b.py", ["read a.py 1-5", "read b.py 1-9"]),
    ("head a.py", ["read a.py 1-10"]),
    ("head -50 a.py", ["read a.py 1-50"]),
    ("head -n 50 a.py", ["read a.py 1-50"]),
    ("head -n50 a.py", ["read a.py 1-50"]),
    ("head --lines=50 a.py", ["read a.py 1-50"]),
    ("head -n -5 a.py", ["search a.py"]),
    ("head -c 100 a.py", ["search a.py"]),
    ("tail -n +30 a.py", ["read a.py 30-"]),
    ("tail -20 a.py", ["search a.py"]),
    ("tail -n 20 a.py", ["search a.py"]),
    ("nl -ba a.py | sed -n '10,20p'", ["read a.py 10-20"]),
    ("nl -b a a.py", ["read a.py"]),
    ("cat a.py | head -20", ["read a.py 1-20"]),
    ("sed -n '10,100p' a.py | head -n 20", ["read a.py 10-29"]),
    ("sed -n '10,12p' a.py | head -n 20", ["read a.py 10-12"]),
    ("head -n 50 a.py | tail -n +41", ["read a.py 41-50"]),
    ("cat a.py | grep x", ["search a.py"]),
    ("cat a.py b.py | head -5", ["search a.py", "search b.py"]),
    ("cat a.py | python x.py", []),
    ("cat a.py | xargs rm", []),
    ("cd src && cat a.py", ["read src/a.py"]),
    ("cd /w && cat a.py", ["read /w/a.py"]),
    ("cd /w && cd src && cat ../a.py", ["read /w/a.py"]),
    ("cd $HOME && cat a.py", []),
    ("cd && cat a.py", []),
    ("echo --- && cat a.py; pwd", ["read a.py"]),
    ("cat a.py\ncat b.py", ["read a.py", "read b.py"]),
    ("# look first\ncat a.py", ["read a.py"]),
    ("LANG=C cat a.py", ["read a.py"]),
    ("cat a.py && go test ./...", []),
    ("cat $FILE", []),
    ('cat "$FILE"', []),
    ("cat '$FILE'", ["read $FILE"]),
    ("cat *.py", []),
    ("cat a.{py,go}", []),
    ("cat $(ls)", []),
    ("cat `ls`", []),
    ("cat <(ls)", []),
    ("(cat a.py)", []),
    ("cat a.py &", []),
    ("cat 'a.py", []),
    ("cat", []),
    ("cat -", []),
    ("for f in a b; do cat $f; done", []),
    ("if true; then cat a.py; fi", []),
    ("git show HEAD:a.py", []),
    ("rg -n 'a|b' src -g '*.go' | head -20", ["search src"]),
    ("rg x", ["search ."]),
    ("grep -rn x src tests", ["search src", "search tests"]),
    ("grep -A 3 x a.py", ["search a.py"]),
    ("grep '>' a.py", ["search a.py"]),
    ("grep ';' a.py", ["search a.py"]),
    ("rg --files src", ["list src"]),
    ("ls", ["list ."]),
    ("ls -la src", ["list src"]),
    ("find . -name '*.py' | sort | head", ["list ."]),
    ("find . -name '*.py' -delete", []),
    ("wc -l a.py", ["search a.py"]),
    ("echo x > a.py", ["write a.py"]),
    ("echo x >> a.py", ["write a.py"]),
    ("make > /dev/null", []),
    ("go test 2> errors.txt", ["write errors.txt"]),
    ("cat a.py > b.py", ["write b.py"]),
    ("cat > a.py <<'EOF'\ncat b.py > c.py\nEOF", ["write a.py"]),
    ("cat > a.py <<EOF\nx\nEOF\ncat a.py", ["write a.py", "read a.py"]),
    ("cat > a.py <<EOF\nno end", []),
    ("ls | tee a.txt", ["list .", "write a.txt"]),
    ("sed -i 's/a/b/' a.py", ["edit a.py"]),
    ("sed -i '' 's/a/b/' a.py", ["edit a.py"]),
    ("sed -i.bak -e 's/a/b/' a.py", ["edit a.py"]),
    ("sed -i 's/a/b/' a.py && go test", ["edit a.py"]),
    ("gofmt -w a.go b.go && go test", ["edit a.go", "edit b.go"]),
    ("gofmt -d a.go", []),
    ("mv a.py b.py", ["write a.py", "write b.py"]),
    ("cp a.py b.py", ["write b.py"]),
    ("rm -f a.py", ["write a.py"]),
    ("git checkout -- a.py", ["edit a.py"]),
    ("git restore a.py", ["edit a.py"]),
    ("git restore --staged a.py", []),
    ("apply_patch <<'P'\n*** Begin Patch\n*** Update File: a.py\n*** End Patch\nP", ["edit a.py"]),
    ("cat a.py [… 9 of 99 lines left out; ref abc] b.py", []),
]


@pytest.mark.parametrize(("tool", "arguments", "expected"), TOOLS)
def test_a_tool_call_is_understood_by_its_name_and_arguments(
    tool: str, arguments: dict[str, object], expected: list[str]
) -> None:
    """The spelling of each family of tools gives the same accesses; a call that names no file gives none."""
    assert found(call(tool, **arguments)) == expected


@pytest.mark.parametrize(("command", "expected"), COMMANDS)
def test_a_shell_command_is_understood_or_left_alone(command: str, expected: list[str]) -> None:
    """Plain reads and writes are recognised; a command that only a shell could resolve gives no access."""
    assert found(call("bash", command=command)) == expected


def test_there_are_enough_rows() -> None:
    """The tables hold the spellings of all families that are named in the documentation."""
    assert len(TOOLS) + len(COMMANDS) >= 120


@pytest.mark.parametrize(
    "arguments", ["", "[]", "not json", '{"path": null}', '{"path": {"a": 1}}', '{"paths": "a"}', '{"input": ""}']
)
def test_odd_arguments_are_no_access(arguments: str) -> None:
    """Arguments that are no object, or hold no path, never raise."""
    assert accesses(ToolCall("c", "read_file", arguments)) == ()
    assert accesses(ToolCall("c", "bash", arguments)) == ()
    assert accesses(ToolCall("c", "apply_patch", arguments)) == ()


@given(st.text(alphabet="cat sed-n'\"\\|&;<>()$`*?#\n.p1,{}=EOF/", max_size=80))
def test_no_command_raises(command: str) -> None:
    """Any text is cut into words or found unclear."""
    pipelines(command)
    accesses(call("bash", command=command))


def test_a_long_command_is_not_looked_at() -> None:
    """Programs and data inside a command cost nothing."""
    assert accesses(call("bash", command="cat a.py; " + "x" * 100_000)) == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./a", "a"),
        ("a//b", "a/b"),
        ("a/../b", "b"),
        ("//a", "/a"),
        ("C:\\a\\b", "c:/a/b"),
        ("src\\a.py", "src/a.py"),
        ("~/a", "~/a"),
        ("", None),
        ("a\0b", None),
    ],
)
def test_paths_are_compared_without_detours(path: str, expected: str | None) -> None:
    """Spellings of the same path are the same; nothing is looked up on disk."""
    assert clean_path(path) == expected


def test_a_relative_path_is_the_absolute_one_if_the_session_knows_one_directory() -> None:
    """All calls that name a directory name the same: then a relative path is below it."""
    calls = [
        call("bash", command="cd /w && ls"),
        call("Read", file_path="src/a.py"),
        call("Read", file_path="/w/src/a.py"),
    ]
    paths = [[access.path for access in found] for found in locate_accesses(calls)]
    assert paths == [["/w"], ["/w/src/a.py"], ["/w/src/a.py"]]


def test_a_relative_path_of_a_shell_is_left_out_if_there_are_several_directories() -> None:
    """If calls name several directories, a relative path may be below any of them; other tools have a workspace of their
    own."""
    calls = [
        call("bash", command="cd /w && ls"),
        call("bash", command="cd /v && ls"),
        call("bash", command="cat a.py"),
        call("read_file", path="a.py"),
        call("bash", command="rm b.py; cat > /w/c.py <<E\nx\nE"),
    ]
    assert [[access.path for access in found] for found in locate_accesses(calls)] == [
        ["/w"],
        ["/v"],
        [],
        ["a.py"],
        ["/w/c.py"],
    ]


def test_long_arguments_are_read_like_short_ones():
    """The cache of short calls has no effect on results, for one call or two, under any id."""
    short, long = (call("Write", file_path="/w/a.py", content="x" * size) for size in (10, 10_000))
    again = ToolCall("c2", short.name, short.arguments)
    assert [accesses(one) for one in (short, again, long)] == [accesses(short)] * 3
    assert found(short) == ["write /w/a.py"]
