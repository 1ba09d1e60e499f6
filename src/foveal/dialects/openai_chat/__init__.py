"""OpenAI Chat Completions."""

from foveal.dialects.openai_chat.write import OpenAIChat
from foveal.dialects.port import Dialect

DIALECT: Dialect = OpenAIChat()

__all__ = ["DIALECT", "OpenAIChat"]
