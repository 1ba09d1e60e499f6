"""From the entries of a branch to its view."""
