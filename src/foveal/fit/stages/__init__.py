"""The steps of a policy."""
