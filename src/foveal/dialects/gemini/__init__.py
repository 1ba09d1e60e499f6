"""Gemini."""

from foveal.dialects.gemini.write import Gemini

__all__ = ["Gemini"]
