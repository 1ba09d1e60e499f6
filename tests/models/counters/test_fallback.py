"""The estimate without a vocabulary stays on the upper side."""

import base64
import gzip
import hashlib
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foveal
from foveal.models.counters import encoding
from foveal.models.counters.fallback import ByteClassCounter

CHUNK_CHARS = 2_000
SHARED = Path(__file__).parents[4] / "shared" / "data"
RECORDED = ("agentdojo", "claude_code_cipher_box", "pi_sessions", "swe_agent_demos", "tau_bench_retail")

CORPUS = {
    "prose": "The engine keeps everything an agent has seen and builds the request that fits the budget. " * 8,
    "json": json.dumps([{"id": n, "name": f"item-{n}", "tags": ["a", "b"], "score": n / 7} for n in range(30)]),
    "log": "\n".join(f"2026-11-15T04:{n:02}:07Z INFO worker-{n} took {n * 13} ms status=200" for n in range(40)),
    "diff": "".join(
        f"@@ -{n},7 +{n},8 @@\n-    return old_value[{n}]\n+    return self.value({n})\n" for n in range(30)
    ),
    "listing": "\n".join(f"-rw-r--r-- 1 root root {n * 977} Nov 15 04:11 src/pkg/module_{n}.py" for n in range(40)),
    "base64": base64.b64encode(b"".join(hashlib.sha512(b"%d" % n).digest() for n in range(20))).decode(),
    "hex": "".join(hashlib.sha256(b"%d" % n).hexdigest() for n in range(30)),
    "random letters": "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=1_500)),
    "digits": "".join(random.Random(2).choices("0123456789", k=1_500)),
    "punctuation": "".join(random.Random(3).choices("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~", k=1_500)),
    "chinese": "我能吞下玻璃而不伤身体。今天天气很好，我们去公园散步吧。" * 20,
    "japanese": "私はガラスを食べられます。それは私を傷つけません。" * 20,
    "korean": "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요. " * 20,
    "russian": "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20,
    "hindi": "मैं काँच खा सकता हूँ और मुझे उससे कोई चोट नहीं पहुंचती। " * 20,
    "emoji": "😀👍🏽🚀✅❌🇩🇪 done " * 40,
    "short": "ok",
    "surrogates": "\ud800\udfff" * 10,
    "controls": "\x00\x01\x02" * 50,
    "empty": "",
}


@pytest.mark.parametrize("text", CORPUS.values(), ids=CORPUS.keys())
def test_the_estimate_is_not_below_the_exact_count(text: str) -> None:
    """Every kind of text in the corpus is estimated from above, and never above one token a byte."""
    exact = encoding("o200k_base").count(text)
    estimate = ByteClassCounter().count(text)
    assert exact <= estimate <= len(text.encode("utf-8", "surrogatepass"))


def test_the_estimate_is_not_below_the_exact_count_on_our_own_sources() -> None:
    """Real Python in chunks of the size the constants were fitted to."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(foveal.__file__).parent.rglob("*.py")))
    chunks = [sources[start : start + CHUNK_CHARS] for start in range(0, len(sources), CHUNK_CHARS)]
    exact, estimate = encoding("o200k_base"), ByteClassCounter()
    below = [chunk for chunk in chunks if estimate.count(chunk) < exact.count(chunk)]
    assert len(below) <= len(chunks) / 1_000


@given(st.text(st.characters(exclude_categories=())))
def test_the_estimate_never_raises_and_never_exceeds_a_token_a_byte(text: str) -> None:
    """Any str has an estimate between nothing and its size."""
    assert 0 <= ByteClassCounter().count(text) <= len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="recorded sessions are not at ../shared/data")
def test_the_estimate_holds_on_recorded_sessions() -> None:
    """At least 99.9 % of 2 000-character chunks are not below the exact count, at a mean overshoot under one half."""
    exact, estimate = encoding("o200k_base"), ByteClassCounter()
    ratios: list[float] = []
    for name in RECORDED:
        with gzip.open(SHARED / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                text = "\n".join(str(message.get("content") or "") for message in json.loads(line)["messages"])
                for start in range(0, len(text), CHUNK_CHARS):
                    chunk = text[start : start + CHUNK_CHARS]
                    ratios.append(estimate.count(chunk) / max(1, exact.count(chunk)))
    assert sum(ratio >= 1 for ratio in ratios) >= 0.999 * len(ratios)
    assert sum(ratios) / len(ratios) < 1.5
