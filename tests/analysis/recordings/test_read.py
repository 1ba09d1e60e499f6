"""Any file gives recordings or a `BadRecording` that says what was expected."""

import gzip
import json
from pathlib import Path

import pytest

from foveal.analysis.recordings import detect, read
from foveal.values.entry import Text, user
from foveal.values.errors import BadRecording

FORMATS = ("neutral", "openai_chat", "claude_code", "codex", "pi", "gemini_cli", "opencode")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz", "s.gz", "s.json", "no-suffix"])
def test_the_format_is_found_whatever_the_file_is_called(write, samples, form, name):
    """Content decides the format and the packing; names do not."""
    path = write(samples[form], name)
    assert detect(path) == form
    assert all(recording.steps for recording in read(path))


def test_a_pretty_printed_document_is_one_conversation(write):
    """A JSON document over many lines is read whole."""
    text = json.dumps({"messages": [{"role": "user", "content": "hi"}]}, indent=2)
    [recording] = read(write(text, "chat.json"))
    assert [step.message for step in recording.steps] == [user("hi")]


def test_a_document_may_list_conversations(write):
    """A list of conversations counts as one conversation a line."""
    talk = {"messages": [{"role": "user", "content": "hi"}]}
    assert len(list(read(write(json.dumps([talk, talk], indent=1), "chats.json")))) == 2
    assert len(list(read(write(json.dumps([talk, talk]) + "\n")))) == 2


def test_a_byte_order_mark_and_blank_lines_are_no_content(write, samples):
    """Files from other systems begin with a BOM and end lines with CRLF."""
    text = "\ufeff\r\n" + samples["openai_chat"].replace("\n", "\r\n\r\n")
    assert len(list(read(write(text)))) == 2
    assert len(list(read(write("\ufeff" + samples["openai_chat"])))) == 2


def test_recordings_are_made_one_at_a_time(write, samples):
    """The first recording is there before the last line has been looked at."""
    recordings = read(write(samples["openai_chat"] + "not json\n"))
    assert next(recordings).steps
    assert next(recordings).steps
    with pytest.raises(BadRecording, match=r"session\.jsonl:3: this is not JSON"):
        next(recordings)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b"\x89PNG\r\n\x00\x00", "not JSON"),
        (b"\x00\x01\x02\n", "binary"),
        (b"\xff\xfeh\x00i\x00\n\x00", "not JSON|binary"),
        (b"7\n", "this is a number"),
        (b'{"conversations": [], "id": 1}\n', "no known recording .* The nearest is"),
        (b'{"uuid": 1, "sessionId": 2}\n', "nearest is claude_code"),
        (b'{"messages": 3}\n', "`messages` must be a list, not a number"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"messages":' + b"[" * 20_000 + b"]" * 20_000 + b"}\n", "nested too deeply"),
    ],
)
def test_a_bad_file_is_refused_with_a_reason(write, content, expected):
    """Whatever is wrong with a file, the error is a `BadRecording` that names it."""
    with pytest.raises(BadRecording, match=expected):
        list(read(write(content)))


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path):
    """A missing file, a directory and an impossible name are bad recordings too."""
    with pytest.raises(BadRecording, match="no such file"):
        list(read(tmp_path / "absent.jsonl"))
    with pytest.raises(BadRecording, match="directory"):
        detect(tmp_path)
    with pytest.raises(BadRecording, match="NUL"):
        list(read("a\0b"))


def test_a_truncated_gzip_is_refused(tmp_path: Path, samples):
    """Half an archive is damage, even if its first lines could be read."""
    path = tmp_path / "half.jsonl.gz"
    path.write_bytes(gzip.compress(samples["openai_chat"].encode() * 500)[:-20])
    with pytest.raises(BadRecording, match="gzip data is cut off"):
        list(read(path))


@pytest.mark.parametrize("form", ["claude_code", "codex", "pi", "gemini_cli"])
def test_a_torn_last_line_of_a_session_is_noted(write, samples, form):
    """A session that is still being written ends in the middle of a line."""
    whole, torn = (list(read(write(samples[form] + tail))) for tail in ("", '{"type": "mess'))
    assert torn[0].steps == whole[0].steps
    assert any("cut off" in note for note in torn[0].notes)


@pytest.mark.parametrize("form", ["neutral", "openai_chat"])
def test_a_torn_last_line_of_a_set_is_damage(write, samples, form):
    """A set of conversations is complete or broken."""
    with pytest.raises(BadRecording, match=r":\d+: the last line is cut off"):
        list(read(write(samples[form] + '{"messages": [')))


@pytest.mark.parametrize("form", FORMATS)
def test_a_line_in_the_middle_that_is_not_json_is_refused(write, samples, form):
    """Only the last line may be torn."""
    with pytest.raises(BadRecording, match="this is not JSON"):
        list(read(write(samples[form] + '{"type": "mess\n' + samples[form])))


@pytest.mark.parametrize("form", FORMATS)
def test_a_line_of_another_kind_is_refused(write, samples, form):
    """A JSON value that cannot be a line of the format is named with its line."""
    with pytest.raises(BadRecording, match=r"session\.jsonl:\d+: .*(must be|expected)"):
        list(read(write(samples[form] + "7\n")))


def test_a_lone_surrogate_survives(write):
    """Half an emoji, cut by some tool, is text like any other."""
    [recording] = read(write('{"messages": [{"role": "user", "content": "a \\ud83d b"}]}\n'))
    assert recording.steps[0].message.parts == (Text("a \ud83d b"),)
