"""What code knows of a session without asking a model: files, commands, failures, todos, identifiers. Pure."""
