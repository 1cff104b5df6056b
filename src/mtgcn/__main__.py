"""`python -m mtgcn` is the command `mtgcn`."""

import sys

from mtgcn.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
