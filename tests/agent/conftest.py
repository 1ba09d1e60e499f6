"""Skills on disk, as the tests of the context have them."""

from ..context.skills.conftest import put, root

__all__ = ["put", "root"]
