"""``python -m opscanner``."""

import sys

from opscanner.cli import main

if __name__ == "__main__":
    sys.exit(main())
