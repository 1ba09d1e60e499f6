"""Foveal between a client and its provider, or inside a framework."""
