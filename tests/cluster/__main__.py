"""Entry point of ``python3 -m tests.cluster``; everything is in cli.py."""

import sys

from tests.cluster.cli import main

sys.exit(main(sys.argv[1:]))
