"""What a SKILL.md may say, and how it is refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.context.skills.front_matter import MOST_FRONT, NAME, read_front
from foveal.values.errors import BadInput


def read(front, body="Do it.", folder=("x",)):
    data = front if isinstance(front, bytes) else f"---\n{front}\n---\n{body}\n".encode()
    return read_front(data, root="/r", folder=folder)


OK = "name: pdf\ndescription: Reads."


def test_every_key_is_read():
    """Known keys have their places, others are kept as they were written."""
    skill = read(
        "name: pdf\ndescription: >\n  Reads\n  files.\nversion: 1.2\nlicense: MIT\nfiles: pdf\ndependencies: [a==1]\n"
        "allowed-tools: Read, Bash(git add:*) Grep\nmetadata: {author: me, since: 2025-01-31}\nmodel: any"
    )
    assert (skill.name, skill.description, skill.version, skill.license) == ("pdf", "Reads files.", "1.2", "MIT")
    assert skill.allowed_tools == ("Read", "Bash(git add:*)", "Grep")
    assert (skill.files, skill.dependencies) == (("*.pdf",), ("a==1",))
    assert skill.extra == {"metadata": {"author": "me", "since": "2025-01-31"}, "model": "any"}


def test_windows_line_ends_and_a_mark_at_the_start_are_read():
    """A file saved by any editor is the same skill."""
    assert read(b"\xef\xbb\xbf---\r\nname: pdf\r\ndescription: D\r\n---\r\nBody\r\n").name == "pdf"


@pytest.mark.parametrize(
    ("front", "what"),
    [
        ("description: D", r"'name' is missing"),
        ("name: pdf", r"'description' is missing"),
        ("name: pdf\ndescription: ' '", r"'description' is a text of 1 characters where a text belongs"),
        ("name: on\ndescription: D", r"'name' is a bool"),
        ("name: PDF Tools\ndescription: D", r"'name' is 'PDF Tools'; it is 1 to 64 of a-z"),
        (f"name: {'a' * 65}\ndescription: D", r"'name' is 'a+"),
        (f"name: pdf\ndescription: {'d' * 1025}", r"'description' has 1,025 characters; 1,024 is the most"),
        (f"{OK}\nversion: [1]", r"'version' is a list"),
        (f"{OK}\nversion: 0x{'f' * 9000}", r"'version' is a int"),
        (f"{OK}\nlicense: {{a: b}}", r"'license' is a dict"),
        (f"{OK}\nallowed-tools: [1]", r"'allowed-tools' holds a int"),
        (f"{OK}\nfiles: {['x'] * 65}", r"'files' has 65 items; 64 is the most"),
        (f"{OK}\nfiles: ['{'x' * 101}']", r"'files' holds a text of 101 characters"),
        (f"{OK}\n1: x", r"'1' is a key that is no text"),
        (f"{OK}\nname: other", r"line 2 has 'name' twice"),
        (f"{OK}\na: &a [x]\nb: *a", r"line 5 has an alias"),
        (f"{OK}\na: !!python/object/apply:os.system [id]", r"not YAML that a skill may use"),
        (f"{OK}\na: {'[' * 5_000}", r"not YAML that a skill may use"),
        (f"{OK}\na: {'9' * 5_000}", r"not YAML that a skill may use"),
        (f"{OK}\na: 'never closed", r"not YAML that a skill may use"),
        ("- a\n- b", r"holds a list where the keys of a skill belong"),
        ("", r"'name' is missing"),
        (b"no front matter", r"does not begin with a line '---'"),
        (b"---\nname: pdf\n", r"no second line '---'"),
        (b"---\n" + b"#" * MOST_FRONT + b"\n---\n", r"no second line '---' in the first 16,384"),
        (b"---\nname: \xff\n---\n", r"is not UTF-8 text \(the byte 0xff in line 2\)"),
        (b"---\nname: a\x00b\n---\n", r"not YAML that a skill may use"),
        (b"", r"does not begin with"),
    ],
    ids=range(28),
)
def test_hostile_front_matter_is_refused_by_file_and_key(front, what):
    """The error names the file and what is wrong in it, in one short line."""
    with pytest.raises(BadInput, match=rf"\Ax/SKILL\.md: .*{what}") as caught:
        read(front)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


def test_a_folder_of_any_name_is_shown_safely():
    """A name on disk cannot put a line or an escape into an error."""
    with pytest.raises(BadInput) as caught:
        read("", folder=("a\n\x1b[31mb\u202e",))
    assert str(caught.value).isprintable()


@given(st.text(max_size=300))
def test_any_front_matter_is_read_or_refused(front):
    """No text gets through as anything but a checked skill or a clear error."""
    with suppress(BadInput):
        assert NAME.match(read(front.encode("utf-8", "replace").decode()).name)
