"""deepagents' summarisation: the state keeps everything, and an event names the stand-in of its beginning."""

import tempfile
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import SummarizationMiddleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage

from engines.langchain import LangChain
from engines.port import KEEP, Job


class DeepAgents(LangChain):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._folder = tempfile.TemporaryDirectory()
        self.middleware = SummarizationMiddleware(
            model=FakeListChatModel(responses=["x"]), summarizer=job.summary,
            backend=FilesystemBackend(root_dir=self._folder.name, virtual_mode=True), trigger=("tokens", job.room),
            keep=("tokens", int(job.room * KEEP)), trim_tokens_to_summarize=None, token_counter=self.count,
        )  # fmt: skip
        self.state: dict[str, Any] = {}

    def arrange(self, place: int) -> None:
        self.asking = self.request(self.history[self.job.lead : place], self.state)

    def step(self, place: int) -> None:
        def answer(asked: Any) -> Any:
            self.sent = asked.messages
            return ModelResponse(result=[AIMessage("ok")])

        done = self.middleware.wrap_model_call(self.asking, answer)
        if isinstance(done, ExtendedModelResponse) and done.command:
            self.state.update(done.command.update)
        event = self.state.get("_summarization_event") or {}
        # Evicted messages are in a file whose path is in the summary.
        self.covered = self.job.lead + event.get("cutoff_index", 0) if event.get("file_path") else 0
