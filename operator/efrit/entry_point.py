"""Load what a text names, as the scripts of a package are named: `package.module:attribute`.

The one place where the product imports a module by its name: what most runs of a program never reach and what takes
long to import (docs/dev/performance.md). tests/unit/test_entry_point.py has the names, and what each saves.
"""

from __future__ import annotations

import importlib
from typing import Any


def load_entry_point(name: str) -> Any:
    """Return the attribute, of a module that is imported if it is not yet."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
