"""Who a user's text mentions, and what only looks like a mention."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.context.mentions import Ambiguous, KnownNames, Mentioned, Unknown, classify, find, mentions_in

KNOWN = KnownNames(
    tools=frozenset({"search", "run_bash", "both"}),
    skills=frozenset({"pdf", "both", "résumé", "搜索"}),
    agents=frozenset({"reviewer", "name with space"}),
    files=frozenset({"src/main.py", "lib/main.py", "notes.txt", "my file.txt", "123", "docs/图表.png"}),
)


def names(text, **known):
    return [mention.sigil + mention.name for mention in find(text, **known)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@pdf read this", ["@pdf"]),
        ("Use @pdf, @search and (@run_bash).", ["@pdf", "@search", "@run_bash"]),
        ("see #src/main.py: and #notes.txt!", ["#src/main.py", "#notes.txt"]),
        ("#.env #./a/b.txt #~/c", ["#.env", "#./a/b.txt", "#~/c"]),
        ('open #"my file.txt" now', ["#my file.txt"]),
        ("ask @{name with space}, then #“我的 文件.txt”", ["@name with space", "#我的 文件.txt"]),
        ("\"@pdf\" and '@search'", ["@pdf", "@search"]),
        ("@résumé für @名前", ["@résumé", "@名前"]),
        ("请用@搜索", ["@搜索"]),
        ("用「@pdf」，然后#notes.txt。", ["@pdf", "#notes.txt"]),
        ("@pdf's output", ["@pdf"]),
        ("@skill:pdf", ["@skill:pdf"]),
        ("- @pdf\n- @search", ["@pdf", "@search"]),
        ("@pdf\nfinal version, please", ["@pdf"]),
        ("1. do this:\n\n    with @pdf", ["@pdf"]),
        ("a paragraph\n    goes on with @pdf", ["@pdf"]),
        ("one ` tick and @pdf", ["@pdf"]),
        ("`a`@pdf `b` @pdf", ["@pdf"]),
        ("```\n@code\n```\n@pdf", ["@pdf"]),
    ],
)
def test_a_mention_is_found(text, found):
    """A sign where a word could begin names somebody; what ends a sentence is not part of the name."""
    assert names(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "jo@example.org and jo.doe+x@example.org",
        '"Jo Doe"@example.org',
        "邮箱张三@example.com",
        "@jo@social.example",
        "git@github.example:a/b.git",
        "HEAD@{1}",
        "https://example.org/@pdf#notes.txt,@pdf",
        "www.example.org/?q=(@pdf)",
        "[there](#notes.txt)",
        "```\n@pdf\n```",
        "~~~~ python\n@pdf\n~~~\n@pdf\n~~~~",
        "```\nnever closed @pdf",
        "  ```sh\n  @pdf\n  ```",
        "`@pdf` and ``a ` @pdf``",
        "`over\ntwo lines @pdf`",
        "text\n\n    @pdf\n\n    @pdf",
        "\t@pdf",
        "@property\ndef name(self): ...",
        "@a.b(c=1)\n@staticmethod\nasync def go():",
        "@dataclass\nclass A:",
        "# Heading\n## Heading",
        "#!/bin/sh",
        "owner/repo#12",
        "#123, #fff and #FF00aa80",
        '@ # @. #. @{} #"" @{never closed',
        "@-x @/x",
        "#" + "x" * 500,
    ],
)
def test_what_is_no_mention_is_not_found(text):
    """Addresses, URLs, code, decorators, headings, issues and colours are somebody else's signs."""
    assert names(text) == []


def test_a_number_is_a_file_where_a_file_has_that_name():
    """`#123` is an issue unless a registry knows it."""
    assert names("#123 #456", known={"123"}) == ["#123"]
    assert mentions_in("#123 #456", KNOWN).files == ("123",)


def test_a_mention_stands_where_it_says():
    """`start` and `end` cut out how it was written."""
    text = 'Use @pdf. Then #"my file.txt"?'
    assert [text[mention.start : mention.end] for mention in find(text)] == ["@pdf", '#"my file.txt"']


def test_names_are_sorted_out_by_the_registries():
    """Each kind by itself, each name once, in the order of the text."""
    found = mentions_in("@reviewer: @search #notes.txt with @pdf, @search again", KNOWN)
    assert found == Mentioned(("search",), ("pdf",), ("reviewer",), ("notes.txt",))


def test_an_unknown_name_is_reported_and_never_taken_for_an_agent():
    """Nobody is called by a name that no registry has; those that look like it are offered."""
    found = mentions_in("@serach @Reviewr @zzz #note.txt", KNOWN)
    assert found.agents == ()
    assert found.unknown == (
        Unknown("@serach", ("@search",)),
        Unknown("@Reviewr", ("@reviewer",)),
        Unknown("@zzz"),
        Unknown("#note.txt", ("#notes.txt",)),
    )


def test_a_name_that_two_have_is_ambiguous_and_can_be_made_plain():
    """The choices are written so that each of them, mentioned, is the only one."""
    (both,) = mentions_in("@both", KNOWN).ambiguous
    assert both == Ambiguous("@both", ("@tool:both", "@skill:both"))
    plain = [mentions_in(choice, KNOWN) for choice in both.choices]
    assert [one.tools + one.skills for one in plain] == [("both",), ("both",)]
    assert not any(one.ambiguous or one.unknown for one in plain)


def test_a_file_is_found_by_the_end_of_its_path():
    """The last part will do while it is the only one; else the choices are the whole paths."""
    assert mentions_in("#图表.png", KNOWN).files == ("docs/图表.png",)
    assert mentions_in("#./src/Main.py", KNOWN).files == ("src/main.py",)
    assert mentions_in("#main.py", KNOWN).ambiguous == (Ambiguous("#main.py", ("#lib/main.py", "#src/main.py")),)
    assert mentions_in("#ain.py", KNOWN).files == ()


def test_case_and_composition_do_not_matter():
    """A name is found as people type it: in capitals, or with its accents apart."""
    assert mentions_in("@PDF @re\u0301sume\u0301", KNOWN).skills == ("pdf", "résumé")


@pytest.mark.parametrize("text", ["用@pdf处理", "@搜索一下这个", "用@both处理"])
def test_a_script_without_spaces_goes_on_after_the_name(text):
    """The longest beginning that a registry has is the name."""
    found = mentions_in(text, KNOWN)
    assert not found.unknown
    assert found.skills or found.ambiguous


@given(st.text(alphabet="@#`~ \n\t\"'{}()ab1.:/处é\0\ud800", max_size=200))
def test_any_text_gives_mentions_that_stand_in_it(text):
    """Whatever the text, mentions are in order, do not overlap, and begin with their sign."""
    found = find(text)
    assert all(text[one.start] == one.sigil and one.name in text[one.start : one.end] for one in found)
    assert all(one.end <= two.start for one, two in pairwise(found))
    classify(found, KNOWN)


@given(st.text(max_size=60).map(lambda text: re.sub(r"`{3,}|~{3,}", "", text)))
def test_nothing_is_found_between_fences(text):
    """Text between two fences is code, whatever it holds."""
    assert find(f"~~~~~~~~\n{text}\n~~~~~~~~\n") == ()


@pytest.mark.parametrize(
    "piece",
    ["@", "#", "`", "``` ", "@{", '#"', "@a(", "a://", "@处", "x@y ", "\n", "@a\n", "    @a\n", "`` ` ", "@{a} "],
)
def test_hostile_texts_are_read_in_one_pass(piece):
    """Much of any sign is read: nothing in the reading goes back over what it has seen."""
    text = piece * (200_000 // len(piece))
    assert len(find(text)) <= len(text)
    assert classify(find(text), KNOWN).agents == ()
