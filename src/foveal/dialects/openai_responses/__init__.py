"""OpenAI Responses."""

from foveal.dialects.openai_responses.write import OpenAIResponses
from foveal.dialects.port import Dialect

DIALECT: Dialect = OpenAIResponses()

__all__ = ["DIALECT", "OpenAIResponses"]
