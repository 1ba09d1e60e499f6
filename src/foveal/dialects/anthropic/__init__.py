"""Anthropic Messages."""

from foveal.dialects.anthropic.write import Anthropic

__all__ = ["Anthropic"]
