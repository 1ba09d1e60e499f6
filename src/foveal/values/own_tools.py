"""The names of the tools that Foveal itself offers to a model."""

RECALL_TOOL = "recall_context"
"""The model reads an original again. `project` counts these calls and shows their results as they are."""

SEARCH_TOOL = "search_context"
"""The model searches the log. Its results are shown as they are."""

CHECKPOINT_TOOL = "checkpoint_context"
"""The agent writes the prose of the next summary itself."""
