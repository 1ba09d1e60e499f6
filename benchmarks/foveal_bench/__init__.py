"""The benchmark: policies of Foveal and of others, measured side by side on recorded sessions. Not part of the wheel."""
