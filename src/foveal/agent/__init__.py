"""The agent runtime: work around the model calls that no context engine should do itself."""
