"""Keeps the synchronous half of the official library unloaded: its package imports all of it, `kubernetes.aio` none.

Every program that connects to an API server would otherwise take 0.06 s of a processor and 7 MB more, for a second
HTTP library.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


def defer_package(name: str) -> None:
    """Make a package importable without running its own code, which runs once an attribute is missing.

    Its submodules are imported as ever. Nothing happens where the package is loaded already or not installed.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader

    def load(attribute: str) -> Any:
        # While a submodule is imported, it is not an attribute yet.
        if submodule := sys.modules.get(f"{name}.{attribute}"):
            return submodule
        # The import system asks for these of every module; only their absence is an answer.
        if attribute.startswith("__") and attribute not in ("__version__", "__project__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        vars(module).pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, attribute)

    vars(module)["__getattr__"] = load
    sys.modules[name] = module
