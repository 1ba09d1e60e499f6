"""Anthropic Messages."""

from foveal.dialects.anthropic.write import Anthropic
from foveal.dialects.port import Dialect

DIALECT: Dialect = Anthropic()

__all__ = ["DIALECT", "Anthropic"]
