"""Searching: what is found, in which order, and how it is shown."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foveal
from foveal.recall import Fetch, fetch
from foveal.recall.search import MOST_HITS, search
from foveal.recall.search.passages import EDGE_CHARACTERS
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.testing.builders import open_session
from foveal.values.entry import File, Message, Note, Opaque, RedactedThinking, Thinking, ToolCall
from foveal.values.errors import BadInput, NotFound

Keep = Callable[..., list[str]]

OPERATORS = [
    '"',
    '""',
    "*",
    "^",
    "-",
    ":",
    "(",
    ")",
    "NEAR",
    "NEAR(a b, 2)",
    "OR",
    "AND",
    "NOT",
    "body:",
    "a*",
    '"a',
    "{",
    "+",
    "\0",
]


def seqs(store: Store, words: str, session: str = "test", **options: Any) -> list[int]:
    return [hit.seq for hit in search(store, session, words, **options)]


def test_everything_that_was_said_is_found_and_named(store: Store, keep: Keep) -> None:
    """Each kind of part, by who said it or by the tool."""
    keep(
        store,
        foveal.system("alphaword"),
        foveal.user("betaword"),
        Message("assistant", (Thinking("gammaword"), ToolCall("c", "read_file", '{"path":"a\\ndeltaword.py"}'))),
        foveal.result("c", "epsilonword"),
        Message("assistant", (Opaque("openai", '{"type":"search","query":"zetaword"}'),)),
        Message("user", (File("text/plain", "etaword.txt", b"x"),)),
        foveal.result("unknown", "thetaword"),
    )
    expected = {
        "alphaword": (1, "system"),
        "betaword": (2, "user"),
        "gammaword": (3, "thinking"),
        "deltaword": (3, "read_file"),
        "epsilonword": (4, "read_file"),
        "zetaword": (5, "assistant"),
        "etaword": (6, "user"),
        "thetaword": (7, "tool"),
    }
    for word, (seq, kind) in expected.items():
        (hit,) = search(store, "test", word)
        assert (hit.seq, hit.kind) == (seq, kind)
        assert word in hit.snippet
        assert word in fetch(store, "test", Fetch(hit.ref)).text


def test_what_nobody_saw_is_not_found(store: Store, keep: Keep) -> None:
    """Notes are for people, and what is encrypted holds no words."""
    keep(store, Note("secretword"), Message("assistant", (RedactedThinking("secretword"),)), foveal.user("x"))
    assert search(store, "test", "secretword") == []


def test_a_branch_that_was_left_is_found(store: Store) -> None:
    """What a rewind leaves behind is out of the view and not out of reach."""
    with open_session(store) as session:
        first = session.append(foveal.user("start"))
        session.append(foveal.user("leftbehind"))
        session.branches.rewind(first.id)
        session.append(foveal.user("goes on"))
    assert seqs(store, "leftbehind") == [2]


NAMES = (
    "max_context_tokens getUserName HTTPServerError foveal.recall.fetch src/app/Main-View.tsx café Straße v2.10.3 don't"
)


ASKED = """max_context_tokens|context|context tokens|MAX_CONTEXT|getUserName|getusername|user name|HTTPServerError|server
error|http|foveal.recall.fetch|recall|recall.fetch|fetching|src/app/Main-View.tsx|app/main|tsx|CAFE|café|straße|2.10|don't"""


@pytest.mark.parametrize("words", ASKED.replace("\n", "|").split("|"))
def test_names_are_found_whole_and_by_their_parts(store: Store, keep: Keep, words: str) -> None:
    """snake_case, camelCase, dotted and slashed names, whatever the case, accents and English endings."""
    keep(store, foveal.user("nothing of that kind"), foveal.user(f"see {NAMES} there"), foveal.user("nor here"))
    assert seqs(store, words) == [2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("这是一个汉字处理的测试", "汉字处理"),
        ("これは日本語のテストです", "日本語"),
        ("한국어를 검색합니다", "검색"),
        ("นี่คือการทดสอบ", "ทดสอบ"),
        ("混合 text 文本abc结束", "文本abc"),
    ],
)
def test_scripts_without_spaces_are_found_by_any_part(store: Store, keep: Keep, text: str, words: str) -> None:
    """A run of characters is found wherever it stands."""
    keep(store, foveal.user("别的内容"), foveal.user(text), foveal.user("その他"))
    assert seqs(store, words)[0] == 2


def test_rare_words_all_words_and_short_texts_rank_higher(store: Store, keep: Keep) -> None:
    """BM25: what tells one text from the others counts most."""
    filler = [foveal.user(f"the build ran and the log is long, step {n}") for n in range(30)]
    keep(
        store,
        *filler,
        foveal.user("the migration of the invoices table failed"),
        foveal.user("the migration went well " + "and so on with many more words " * 40),
        foveal.user("the migration went well"),
        foveal.user("invoices invoices invoices"),
    )
    assert seqs(store, "why did the migration of invoices fail")[0] == 31
    assert seqs(store, "migration")[:3] == [33, 31, 32]


def test_a_name_that_stands_whole_ranks_before_its_scattered_parts(store: Store, keep: Keep) -> None:
    """Asking for a name is asking for that name first."""
    parts = "the context of many tokens is at its max; " * 3
    keep(
        store,
        foveal.user(parts),
        foveal.user("set max_context_tokens here, in some longer sentence"),
        foveal.user(parts),
    )
    assert seqs(store, "max_context_tokens")[0] == 2


def test_a_hit_says_where_to_read_on(store: Store, keep: Keep) -> None:
    """The line of the snippet is the line of the original, in a part of any length, and the snippet is verbatim."""
    lines = [f"line number {n} of a long output" for n in range(1, 40_001)]
    lines[29_999] = "here is the canary \x1b[31m\0 alone"
    keep(store, foveal.assistant("", ToolCall("c", "run", "{}")), foveal.result("c", "\n".join(lines)))
    hit = search(store, "test", "canary")[0]
    assert hit.line == 30_000
    assert hit.snippet == "\n".join(lines[29_999:30_001])
    assert hit.characters == len("\n".join(lines))
    assert fetch(store, "test", Fetch(hit.ref, offset=hit.line - 1, limit=1)).text == lines[29_999] + "\n"


def test_both_ends_of_a_huge_result_are_found_and_the_middle_by_a_pattern(store: Store, keep: Keep) -> None:
    """The first and the last million characters are indexed, with the right line numbers."""
    filler = ("some words in between\n" * (EDGE_CHARACTERS // 22)) + "\n"
    text = "firstword\n" + filler + "middleword\n" + filler + "lastword\n"
    keep(store, foveal.assistant("", ToolCall("c", "run", "{}")), foveal.result("c", text))
    for word in ("firstword", "lastword"):
        (hit,) = search(store, "test", word)
        assert word in hit.snippet
        assert text.split("\n")[hit.line - 1] == word
    assert search(store, "test", "middleword") == []
    assert fetch(store, "test", Fetch(hit.ref, pattern="middleword", context=0)).matches == 1


def test_one_part_is_one_hit(store: Store, keep: Keep) -> None:
    """A long result that repeats the words everywhere leaves room for others."""
    keep(store, foveal.user("needle in prose"), foveal.user("needle again\n" * 5_000), foveal.user("no"))
    assert sorted(seqs(store, "needle")) == [1, 2]


def test_kinds_can_be_left_out(store: Store, keep: Keep) -> None:
    """A search does not find earlier searches for the same words."""
    keep(
        store,
        foveal.user("the zebra"),
        foveal.assistant("", ToolCall("s", "search", '{"query":"zebra"}')),
        foveal.result("s", "1. the zebra"),
    )
    assert sorted(seqs(store, "zebra")) == [1, 2, 3]
    assert seqs(store, "zebra", without={"search"}) == [1]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_mean_nothing(store: Store, keep: Keep, operator: str) -> None:
    """Words are words whatever stands around them, and signs alone find nothing."""
    keep(store, foveal.user("apple pie"), foveal.user("banana bread"), foveal.user("cherry cake"))
    for words in (f"apple {operator} banana", f"{operator} apple banana {operator}"):
        assert {1, 2} <= set(seqs(store, words))
    if not any(char.isalnum() for char in operator):
        assert seqs(store, f"apple{operator}") == seqs(store, f"{operator}apple") == [1]
        assert search(store, "test", operator) == []


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=30), st.text(alphabet='"*^-:(){}+,. ORNEAT汉\0\ud800', max_size=30))
def test_no_query_is_an_error(text: str, signs: str) -> None:
    """Any text that is not blank can be searched for."""
    store = MemoryStore()
    with open_session(store) as session:
        session.append(foveal.user(text + "OR NEAR"))
    for words in (text, signs, f'{signs}"{text}'):
        if words.strip():
            search(store, "test", words)


@pytest.mark.parametrize(
    ("words", "limit", "said"),
    [
        ("", 10, "empty"),
        (" \n", 10, "empty"),
        ("x" * 2_000, 10, "2,000 characters"),
        ("x", 0, "limit 0"),
        ("x", MOST_HITS + 1, "100"),
        ("x", True, "limit True"),
    ],
)
def test_what_cannot_be_searched_is_refused(store: Store, keep: Keep, words: str, limit: int, said: str) -> None:
    """Each mistake is named."""
    keep(store, foveal.user("x"))
    with pytest.raises(BadInput) as refusal:
        search(store, "test", words, limit=limit)
    assert said in str(refusal.value)


def test_an_unknown_session_is_not_found(store: Store) -> None:
    """A mistyped name is an error, and leaves no index behind."""
    for name in ("nobody", "", "\ud800", "../x"):
        with pytest.raises(NotFound):
            search(store, name, "x")


def test_no_session_finds_another_ones_text(store: Store, keep: Keep) -> None:
    """Fifty sessions with a canary each: neither hits nor scores know of the others."""
    for number in range(50):
        bodies = [foveal.user(f"shared words and canary{number}x{n}") for n in range(3)]
        keep(store, *bodies, session=f"s{number}")
    for number in range(50):
        name = f"s{number}"
        hits = search(store, name, "shared words canary" + "".join(f" canary{other}x1" for other in range(50)))
        assert [hit.seq for hit in hits] == [2, 3, 1]
        assert all(f"canary{number}x" in hit.snippet for hit in hits)
        assert search(store, name, f"canary{(number + 1) % 50}x1") == []
    alone = MemoryStore()
    keep(alone, *(foveal.user(f"shared words and canary7x{n}") for n in range(3)), session="s7")
    assert [hit.score for hit in search(alone, "s7", "canary7x1")] == [
        hit.score for hit in search(store, "s7", "canary7x1")
    ]


def test_both_kinds_of_store_rank_alike(file_store: Store, keep: Keep) -> None:
    """The index in memory is the same index."""
    memory = MemoryStore()
    for one in (memory, file_store):
        keep(one, *(foveal.user(f"word{n % 7} word{n % 3} common text {'long ' * n}") for n in range(40)))
    for words in ("word1 word2", "common", "long word5"):
        assert search(memory, "test", words) == search(file_store, "test", words)


def test_importing_search_loads_no_database() -> None:
    """Whoever does not search does not pay for it."""
    code = "import sys, foveal.recall.search, foveal.recall; sys.exit('apsw' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
