"""`python -m mtgcn.distributed`."""

import sys

from mtgcn.distributed.commands import main

if __name__ == "__main__":
    sys.exit(main())
