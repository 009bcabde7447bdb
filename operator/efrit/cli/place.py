"""Where a command line says to work, and how a person is told what no answer says."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from efrit.client.backends import Place


def place_of(given: Namespace) -> Place:
    """Where the command line says to work."""
    place = Place(
        backend=getattr(given, "backend", None),
        context=getattr(given, "context", None),
        namespace=getattr(given, "namespace", None),
    )
    if path := getattr(given, "config", None):
        place = replace(place, config=Path(path).expanduser())
    if path := getattr(given, "kubeconfig", None):
        place = replace(place, kubeconfig=Path(path).expanduser())
    return place


def notice(text: str) -> None:
    """Print on standard error what a person has to know beside the answer."""
    print(f"efrit: {text}", file=sys.stderr)
