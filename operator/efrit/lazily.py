"""Loads what a package exports when it is first asked for, so that one word of it does not cost all of it.

For packages whose surface is heavy (pydantic models) and that a command line reaches into. Imports nothing of ours.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def attributes_of(package: str, exported: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`; `exported` gives, by submodule, the names it defines, between spaces."""
    home = {name: module for module, names in exported.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        # The next look finds it without us.
        setattr(sys.modules[package], name, value)
        return value

    return load
