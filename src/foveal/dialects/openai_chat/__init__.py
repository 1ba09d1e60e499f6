"""OpenAI Chat Completions."""

from foveal.dialects.openai_chat.write import OpenAIChat

__all__ = ["OpenAIChat"]
