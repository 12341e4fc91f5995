"""``python -m cohort``: the command ``cohort``."""

import sys

from cohort.command import main

if __name__ == "__main__":
    sys.exit(main())
