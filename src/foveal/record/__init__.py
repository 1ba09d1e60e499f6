"""From what a host hands in to entries."""
