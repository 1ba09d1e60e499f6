"""OpenAI Responses."""

from foveal.dialects.openai_responses.write import OpenAIResponses

__all__ = ["OpenAIResponses"]
