"""Recording: the messages, marks and replies of a host become entries."""
