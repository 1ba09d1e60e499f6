"""Reading sessions after the fact."""
