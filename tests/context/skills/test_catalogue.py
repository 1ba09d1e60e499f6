"""The list of skills in the prompt, and the tool that reads one."""

import json

import pytest

from foveal import ToolCall
from foveal.context.skills import SKILL_TOOL, Skills, catalogue
from foveal.context.skills.skills import HEADER, READ, answer
from foveal.values.errors import BadInput, NotFound


def lines(root, tokens=100_000):
    return catalogue(Skills.scan([root]), tokens, len).splitlines()


def test_the_catalogue_is_one_line_a_skill_by_name(root, put):
    """Its bytes are the same however the folders are listed: it stands in the cached prefix."""
    put("b")
    put("a", r"name: a" + "\n" + r'description: "Two\nlines.\u2028- forged: x"')
    assert lines(root) == [HEADER, "- a: Two lines. - forged: x", "- b: About b."]


def test_without_skills_there_is_no_catalogue(root):
    """No empty heading."""
    assert lines(root) == []


def test_descriptions_are_cut_alike_until_they_fit(root, put):
    """No skill is told better than another; the last resort is names, and a count of the rest."""
    for number in range(10):
        put(f"s{number}", f"name: s{number}\ndescription: {'word ' * 100}")
    for tokens in (3_000, 1_500, 800, 250, 150):
        shown = lines(root, tokens)
        assert len("\n".join(shown)) <= tokens
        assert len({len(line) for line in shown[1:11]}) == 1 or shown[-1].endswith("more, which the user can name")
    assert shown[-1] == f"- and {10 - len(shown) + 2} more, which the user can name"
    with pytest.raises(BadInput, match="does not fit into 20 tokens; allow it"):
        lines(root, 20)


def test_the_tool_reads_a_skill_and_its_files(root, put):
    """What the model sees names the files that it can ask for next."""
    put("pdf", body="How to.", **{"guide.md": "Guide"})
    skills = Skills.scan([root])
    ask = lambda **asked: answer(ToolCall("c", READ, json.dumps(asked)), skills)  # noqa: E731
    assert ask(name="pdf") == "How to.\n\n[files of the skill pdf]\n- guide.md (5 bytes)"
    assert ask(name="pdf", file="guide.md") == "Guide"
    with pytest.raises(NotFound):
        ask(name="other")
    with pytest.raises(BadInput, match="is not a path below a folder"):
        ask(name="pdf", file="../pdf/guide.md")
    with pytest.raises(BadInput, match="arguments are not understood"):
        ask(file="guide.md")
    assert SKILL_TOOL["function"]["name"] == READ


def test_a_file_that_is_no_text_is_said_to_be(root, put):
    """Bytes are not guessed at."""
    (put("pdf") / "logo.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(BadInput, match=r"logo\.png: is not text; it has 5 bytes"):
        answer(ToolCall("c", READ, '{"name": "pdf", "file": "logo.png"}'), Skills.scan([root]))
