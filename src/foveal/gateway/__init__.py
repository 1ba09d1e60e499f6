"""The gateway: an agent talks to Foveal as if it were its provider, and Foveal to the provider."""
