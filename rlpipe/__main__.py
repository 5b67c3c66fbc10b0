"""``python -m rlpipe``."""

import sys

from rlpipe.app import main

if __name__ == "__main__":
    sys.exit(main())
