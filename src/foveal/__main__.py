"""`python -m foveal`, for where the script is not on the path."""

import sys

from foveal.cli import main

if __name__ == "__main__":
    sys.exit(main())
