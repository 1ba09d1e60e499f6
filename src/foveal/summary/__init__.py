"""The summary of a folded range: its state, its composition as text, and the acceptance of prose that a model wrote. Pure."""
