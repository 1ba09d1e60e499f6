"""Cut a file anywhere, change it anyhow: recordings or a clear error, nothing else."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveal.analysis.recordings import Recording, read
from foveal.values.errors import BadRecording

FORMATS = ("neutral", "openai_chat", "claude_code", "codex", "pi", "gemini_cli", "opencode")

# The file is written anew for each example, so sharing its folder is harmless.
shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def recordings_or_none(path: Path) -> list[Recording] | None:
    try:
        return list(read(path))
    except BadRecording:
        return None


@shared_folder
@given(data=st.data(), form=st.sampled_from(FORMATS), packed=st.booleans())
def test_a_file_cut_at_any_byte_is_read_or_refused(tmp_path, samples, data, form, packed):
    """A cut gives a clean prefix or a `BadRecording`."""
    content = samples[form].encode()
    content = gzip.compress(content, mtime=0) if packed else content
    path = tmp_path / "cut"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    found = recordings_or_none(path)
    assert found is None or all(isinstance(recording, Recording) for recording in found)


@shared_folder
@given(content=st.binary(max_size=200))
@pytest.mark.parametrize("name", ["noise.jsonl", "noise.json", "noise.gz"])
def test_random_bytes_are_refused(tmp_path, name, content):
    """Noise is not a recording."""
    path = tmp_path / name
    path.write_bytes(content)
    assert recordings_or_none(path) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@shared_folder
@given(data=st.data(), form=st.sampled_from(FORMATS), value=VALUES)
def test_any_value_in_any_place_is_read_or_refused(tmp_path, samples, data, form, value):
    """No field is trusted to have its type."""
    records = [json.loads(line) for line in samples[form].splitlines()]
    node, key = records, data.draw(st.integers(0, len(records) - 1))
    while node[key] and isinstance(node[key], dict | list) and data.draw(st.booleans()):
        node = node[key]
        key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else list(range(len(node)))))
    node[key] = value
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    recordings_or_none(path)
