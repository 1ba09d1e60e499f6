"""The stages of a policy: each proposes folds of one kind."""
