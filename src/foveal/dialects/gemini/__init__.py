"""Gemini."""

from foveal.dialects.gemini.write import Gemini
from foveal.dialects.port import Dialect

DIALECT: Dialect = Gemini()

__all__ = ["DIALECT", "Gemini"]
