"""Exact counts: agreement with tiktoken, any text, long text, forks, and what happens without the library."""

import base64
import hashlib
import os
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from splintr import Tokenizer
from tiktoken_ext import openai_public

from foveal.models.counters import encoding, encodings
from foveal.models.counters.encodings import FORCED_CUT_TOKENS, PIECE_CHARS, Encoding, pieces
from foveal.models.counters.fallback import ByteClassCounter

NAMES = ("o200k_base", "cl100k_base")

# Any code point, surrogates included, with the pieces that have special meanings made likely.
ANY_TEXT = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=()), max_size=20),
        st.sampled_from(
            [
                "<|endoftext|>",
                "<|",
                "|>",
                "\x00",
                "\ud800",
                "\udfff",
                " ",
                "\n",
                "\r\n",
                "'s",
                "123",
                "é",
                "漢",
                "🚀",
                "a b",
            ]
        ),
    ),
    max_size=12,
).map("".join)


@pytest.fixture(scope="module", params=NAMES)
def oracle(request: pytest.FixtureRequest) -> tuple[str, tiktoken.Encoding]:
    """tiktoken's own splitting and merging over a vocabulary whose hash is the one tiktoken pins."""
    name: str = request.param
    tokenizer = Tokenizer.from_pretrained(name)
    size = {"o200k_base": 199_998, "cl100k_base": 100_256}[name]
    ranks = {tokenizer.decode_token_bytes(rank): rank for rank in range(size)}

    def local(_url: str, expected_hash: str) -> dict[bytes, int]:
        lines = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
        assert hashlib.sha256(lines).hexdigest() == expected_hash
        return ranks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openai_public, "load_tiktoken_bpe", local)
        return name, tiktoken.Encoding(**getattr(openai_public, name)())


def expected(tokenizer: tiktoken.Encoding, text: str) -> int:
    clean = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return len(tokenizer.encode_ordinary(clean))


WORDS = (
    *(
        "hello",
        "Hello world",
        "it's we'll I'D they'VE",
        "naïve café",
        "ﬁne ligature",
        "ＦＵＬＬ width",
        "e\u0301 combining",
    ),
    *(
        "我能吞下玻璃而不伤身体。",
        "私はガラスを食べられます。",
        "나는 유리를 먹을 수 있어요.",
        "漢字かなカナ混じり",
        "龘靐齉",
    ),
    *("Съешь же ещё этих мягких булок", "أنا قادر على أكل الزجاج", "मैं काँच खा सकता हूँ", "ฉันกินกระจกได้", "Ξεσκεπάζω"),
    *("😀", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪🇫🇷", "✅❌⚠️", "→ ─ │ ╭", "½ ² ³ Ⅷ ①", "\u200b\u200d\ufeff", "a\u00a0b\u3000c"),
    *(
        "<|endoftext|>",
        "<|im_start|>user<|im_sep|>",
        "x<|fim_prefix|>y",
        "<|think|>",
        "<| endoftext |>",
        "<|endofprompt|><|",
    ),
    *(
        "\x00",
        "\x00\x01\x7f",
        "a\x00b",
        "\ud800",
        "x\udc00y",
        "\ud83d\ude00",
        "",
        " ",
        "  ",
        "\n",
        "\r\n\r\n",
        "\t\t x",
        " \n \n x",
    ),
    *("0", "1234567", "3.14159", "1,000,000", "0x1f2e3d", "2026-11-15T04:11:00Z", "192.168.0.1", "1e-9", "№42"),
    *(
        "def f(x):\n    return x ** 2\n",
        "const a = () => ({...b});",
        "SELECT * FROM t WHERE a='b';",
        "#include <stdio.h>\n",
    ),
    *(
        '{"a": [1, 2, {"b": null}]}',
        "<div class='x'>&nbsp;</div>",
        "| a | b |\n|---|---|\n",
        "diff --git a/x b/y\n@@ -1 +1 @@",
    ),
    *(
        "/usr/lib/python3.11/site-packages",
        "C:\\Users\\x\\y",
        "https://example.org/?q=1&r=%20#z",
        "CamelCaseIdentifier_snake",
    ),
    *(
        "ALLCAPS mIxEd",
        "----====****",
        "....",
        "!?!?",
        "'''\"\"\"",
        "\\n\\t",
        "a" * 300,
        " " * 300,
        "\n" * 100,
        "ab" * 200,
    ),
    *(
        "\u001b[31mred\u001b[0m",
        "line\u2028sep",
        "\u0130\u0131 ǅ",
        "ß ẞ ſ",
        "O'Neil's don'T",
        "x//y\n/z",
        "}\n/",
        ")/\n\n/a",
    ),
)
ENCODED = tuple(base64.b64encode(hashlib.sha512(b"%d" % n).digest()).decode() for n in range(30))
HEXED = tuple(hashlib.sha256(b"%d" % n).hexdigest() for n in range(20))
JOINED = tuple(
    f"{left}{joint}{right}" for left, right in zip(WORDS, WORDS[7:], strict=False) for joint in ("", " ", "\n")
)
SAMPLES = (*WORDS, *ENCODED, *HEXED, *JOINED, "".join(ENCODED), "\n".join(HEXED), " ".join(WORDS))


def test_counts_equal_tiktoken_on_varied_texts(oracle: tuple[str, tiktoken.Encoding]) -> None:
    """Prose, scripts, emoji, code, encoded data and special-token text count as in the reference implementation."""
    name, tokenizer = oracle
    counter = encoding(name)
    assert len(SAMPLES) >= 200
    assert {text: counter.count(text) for text in SAMPLES} == {text: expected(tokenizer, text) for text in SAMPLES}
    assert counter.name == name


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_counts_as_tiktoken_does(oracle: tuple[str, tiktoken.Encoding], text: str) -> None:
    """No text fails, lone surrogates count as U+FFFD, and the count is exact."""
    name, tokenizer = oracle
    assert encoding(name).count(text) == expected(tokenizer, text)


@settings(max_examples=200, deadline=None)
@given(left=ANY_TEXT, right=ANY_TEXT)
def test_concatenation_adds_up_within_the_margin_of_a_cut(left: str, right: str) -> None:
    """What a forced cut adds covers the difference between a text and the sum of its halves."""
    count = encoding("o200k_base").count
    assert count(left + right) <= count(left) + count(right) + FORCED_CUT_TOKENS


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(ANY_TEXT, st.text("ab 1\n.'/", max_size=400)), size=st.integers(8, 64))
def test_pieces_are_the_text_and_their_counts_do_not_fall_short(text: str, size: int) -> None:
    """Safe cuts are exact; each forced one adds its margin and at most six tokens more."""
    counter = encoding("o200k_base")
    exact = counter.count(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encodings, "PIECE_CHARS", size)
        patch.setattr(encodings, "_LOOK_BACK_CHARS", size // 2)
        patch.setattr(encodings, "_BATCH_CHARS", 4)
        cut = list(pieces(text))
        counted = counter.count(text)
    assert "".join(piece for piece, _ in cut) == text
    assert all(len(piece) <= size for piece, _ in cut)
    forced = sum(was_forced for _, was_forced in cut)
    assert exact <= counted <= exact + forced * (FORCED_CUT_TOKENS + 6)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        pytest.param(" " * 1_000_000, 7_813, id="a million spaces"),
        pytest.param("hello world foo bar " * 1_000_000, 4_000_001, id="20 MB of words"),
        pytest.param("a" * 20_000_000, 2_500_000, id="20 MB without a boundary"),
        pytest.param("漢字仮名交じり文" * 40_000, 360_000, id="unspaced script"),
        pytest.param("x <|endoftext|> y\n" * 20_000, 200_000, id="special-token text"),
    ],
)
def test_long_texts_stay_within_the_stated_bound(text: str, exact: int) -> None:
    """Texts of any length are counted from above, by at most 14 tokens for each forced cut."""
    cuts = -(-len(text) // PIECE_CHARS) - 1
    assert exact <= encoding("o200k_base").count(text) <= exact + 14 * cuts


def test_importing_loads_no_vocabulary_and_no_price_table() -> None:
    """Importing is cheap: the vocabulary library waits for the first count."""
    code = (
        "import sys, foveal.models.counters, foveal.models.catalogue\n"
        "foveal.models.counters.counter_for('gpt-5')\n"
        "sys.exit('splintr' in sys.modules or foveal.models.catalogue.table._data.cache_info().currsize)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_threads_that_count_first_at_once_load_the_vocabulary_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty sessions that begin together would take a second and hundreds of megabytes."""
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        time.sleep(0.05)
        return Tokenizer.from_pretrained(name)

    module = types.ModuleType("splintr")
    module.Tokenizer = types.SimpleNamespace(from_pretrained=load)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "splintr", module)
    counter = Encoding("o200k_base")
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(counter.count, ["hello world"] * 8))
    assert (counts, loaded) == ([2] * 8, ["o200k_base"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_forked_process_can_count_large_texts() -> None:
    """The thread pool of the batch call does not survive a fork; counting goes on without it."""
    code = (
        "import os, sys\n"
        "from foveal.models.counters import encoding\n"
        "text, counter = 'hello world ' * 20_000, encoding('o200k_base')\n"
        "first = counter.count(text)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if counter.count(text) == first else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False, timeout=100).returncode == 0


def test_a_missing_library_gives_the_estimate_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the counter is the estimate, under another name and with the reason."""
    monkeypatch.setattr(encodings, "find_spec", lambda _name: None)
    counter = encoding.__wrapped__("o200k_base")
    assert isinstance(counter, ByteClassCounter)
    assert (counter.name, counter.reason) == ("bytes~o200k_base", "splintr is not installed")


def test_a_library_that_does_not_load_gives_the_estimate_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken installation does not stop the agent; the counter tells that it estimates, and why."""
    monkeypatch.setitem(sys.modules, "splintr", None)
    counter = Encoding("o200k_base")
    assert counter.count("hello world") == ByteClassCounter().count("hello world")
    assert counter.name == "bytes~o200k_base"
    assert "o200k_base could not be loaded" in (counter.failure or "")


class PanicException(BaseException):
    """What the native library raises when it panics is no `Exception`."""


@pytest.mark.parametrize("error", [PanicException("boom"), RuntimeError("boom")])
def test_a_text_the_library_fails_on_is_estimated(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """One failing text does not raise, and does not spoil the counter for the next."""
    counter = Encoding("o200k_base")
    monkeypatch.setitem(sys.modules, "splintr", broken_library(error))
    assert counter.count("hello") == ByteClassCounter().count("hello")
    assert counter.failure is None


def test_an_interrupt_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during a count stops the program."""
    monkeypatch.setitem(sys.modules, "splintr", broken_library(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        Encoding("o200k_base").count("hello")


def broken_library(error: BaseException) -> types.ModuleType:
    class Broken:
        def special_tokens(self) -> dict[str, int]:
            return {}

        def encode_flat(self, _text: str) -> bytes:
            raise error

        def encode_batch_flat(self, _texts: list[str]) -> tuple[bytes, bytes]:
            raise error

    module = types.ModuleType("splintr")
    module.Tokenizer = types.SimpleNamespace(from_pretrained=lambda _name: Broken())  # type: ignore[attr-defined]
    return module
