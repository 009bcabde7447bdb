"""Command lines of the tests' own programs: `--help` says what the docstring of the module says."""

from __future__ import annotations

import argparse


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with this text; where it takes no arguments, it refuses them before anything is begun."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
