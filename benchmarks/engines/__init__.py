"""Other engines, one file each; every file is imported in that engine's own environment only."""
