"""From a view to the fold that makes it fit."""
