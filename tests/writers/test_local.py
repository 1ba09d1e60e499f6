"""The model in this process, with a runtime that says what a test tells it to."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from foveal.summary.accept import accept
from foveal.summary.question import SECTIONS, Question
from foveal.values.errors import MissingExtra
from foveal.writers import local
from foveal.writers.call import AcceptedSummary, FailedSummary, ask
from foveal.writers.local import LocalModel, sections_from
from foveal.writers.port import Unanswered

QUESTION = Question(
    "[1 e1] user: Make the import fast, never touch invoices. " + "More words follow here. " * 30, tokens=150
)
FIELDS = {
    "goal": ["Make the import fast."],
    "constraints": ["never touch  invoices", "never touch invoices"],
    "state": ["The loader reads in batches."],
    "decisions": [],
    "next": ["Mend test_resume."],
}


class Runtime:
    """Stands for the package: remembers what was asked, gives what is to be given."""

    def __init__(self) -> None:
        self.asked: list[dict] = []
        self.wanted: list[SimpleNamespace] = []
        self.body: dict | Exception = {}

    def answers(self, text: str, finish: str = "stop") -> None:
        choice = {"finish_reason": finish, "index": 0, "message": {"role": "assistant", "content": text}}
        self.body = {"choices": [choice], "model": "m", "usage": {"prompt_tokens": 90, "completion_tokens": 40}}

    def server(self, wanted: SimpleNamespace) -> SimpleNamespace:
        self.wanted.append(wanted)
        return SimpleNamespace(handle_chat_completions=self._handle)

    def _handle(self, asked: dict) -> dict:
        self.asked.append(asked)
        if isinstance(self.body, Exception):
            raise self.body
        return self.body


@pytest.fixture
def runtime(monkeypatch) -> Runtime:
    made = Runtime()
    module: Any = ModuleType("xllamacpp")
    module.CommonParams = lambda: SimpleNamespace(
        model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    )
    module.Server = made.server
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    monkeypatch.setattr(local, "find_spec", lambda name: name)
    return made


@pytest.fixture
def model(runtime, tmp_path) -> LocalModel:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"GGUF")
    return LocalModel(path)


def put(model: LocalModel):
    def judge(answer, question):
        return accept(answer, question, count=lambda text: len(text.split()), smaller_than=100)

    return ask(model, QUESTION, deadline_s=30, judge=judge, retries=0)


def test_its_json_becomes_the_sections(runtime, model):
    """Every heading is there, doubled items once, an empty list as a word; and that is accepted."""
    runtime.answers(msgspec.json.encode(FIELDS).decode())
    outcome = put(model)
    assert isinstance(outcome, AcceptedSummary)
    assert outcome.text.splitlines()[:4] == [
        "## Goal",
        "- Make the import fast.",
        "## Constraints",
        "- never touch invoices",
    ]
    assert "## Decisions\nnone" in outcome.text
    assert [(u.model, u.input_tokens, u.output_tokens) for u in outcome.spent.usage] == [("small", 90, 40)]


def test_the_runtime_is_held_to_the_schema(runtime, model):
    """All five fields are required and no other is allowed."""
    runtime.answers(msgspec.json.encode(FIELDS).decode())
    put(model)
    schema = runtime.asked[0]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == [name.lower() for name in SECTIONS] == list(schema["properties"])
    assert schema["additionalProperties"] is False
    assert runtime.asked[0]["max_tokens"] == QUESTION.tokens


def test_the_model_is_loaded_once_and_late(runtime, model):
    """Making the summariser costs nothing; two questions load one model."""
    assert runtime.wanted == []
    runtime.answers(msgspec.json.encode(FIELDS).decode())
    put(model)
    put(model)
    assert len(runtime.wanted) == 1


def test_its_port_is_locked(runtime, model):
    """The runtime listens on this machine; without the key, made anew each time, nobody is served."""
    runtime.answers("{}")
    put(model)
    (wanted,) = runtime.wanted
    assert len(wanted.api_keys[0]) >= 32
    assert (wanted.ui, wanted.endpoint_slots) == (False, False)
    assert wanted.api_keys[0] not in repr(model)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {"error": {"code": 400, "message": "request (900 tokens) exceeds the available context size (512)"}},
            "too_long",
        ),
        (RuntimeError("The model produced output that does not match the expected format"), "cut_off"),
        (RuntimeError("out of memory"), "raised"),
    ],
    ids=["too long", "cut", "raising"],
)
def test_what_goes_wrong_is_typed(runtime, model, body, reason):
    """The runtime's errors come as objects and as exceptions."""
    runtime.body = body
    outcome = put(model)
    assert isinstance(outcome, FailedSummary)
    assert outcome.reason == reason
    assert "local model" in outcome.detail


def test_an_answer_at_its_limit_is_cut_off(runtime, model):
    """What the limit ended is not kept."""
    runtime.answers('{"goal": ["Make', "length")
    outcome = put(model)
    assert isinstance(outcome, FailedSummary)
    assert outcome.reason == "cut_off"


@pytest.mark.parametrize("answer", ["", '{"goal": ["x"', '{"goal": "text"}', "[]"])
def test_other_json_is_no_answer(answer):
    """Neither half of it nor another shape."""
    with pytest.raises(Unanswered, match="not the JSON"):
        sections_from(answer)


def test_without_its_package_the_command_is_told(monkeypatch, tmp_path):
    """The error is the line to type."""
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[local\]'"):
        LocalModel(tmp_path)
