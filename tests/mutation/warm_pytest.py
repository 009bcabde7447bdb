"""Runs pytest for one mutant after the other, each in a fork of a process that has imported the libraries.

    python -m tests.mutation.warm_pytest SECONDS

Each line on stdin is an object with pytest's `arguments` and what is added to its `environment`; each on stdout one
with its exit `code` and `output`.
The product is imported as it is at the start, too. A fork imports anew what has another source by then, and all that
leads to it, so that each run sees the sources as they are; half a second of a processor is saved for most mutants.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import prometheus_client
import pytest
from prometheus_client.metrics import MetricWrapperBase

LIBRARIES = Path(__file__).with_name("libraries.py")
PRODUCT = "efrit"
OURS = (PRODUCT, "tests")


def import_libraries() -> None:
    """Have pytest itself import them, as it rewrites the assertions of some."""
    with TemporaryFile("w+") as sink:
        _run_at(sink, ["-q", "-p", "no:cacheprovider", str(LIBRARIES)])


class Product(NamedTuple):
    """The modules of the product as they are imported: the source of each, and which import it, by name."""

    sources: Mapping[str, str]
    importers: Mapping[str, set[str]]


def import_product() -> Product:
    """Import all of it."""
    package = importlib.import_module(PRODUCT)
    for module in pkgutil.walk_packages(package.__path__, f"{PRODUCT}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    product = product_of({name: _source(name) for name in sys.modules if name.partition(".")[0] == PRODUCT})
    # A fork that collects garbage would copy what it looks through.
    gc.freeze()
    return product


def _source(name: str) -> str:
    return Path(str(sys.modules[name].__file__)).read_text()


def product_of(sources: Mapping[str, str]) -> Product:
    """Return which modules import which, by their sources."""
    importers: dict[str, set[str]] = {}
    for importer, source in sources.items():
        for name in _imported(source):
            importers.setdefault(name, set()).add(importer)
    return Product(sources, importers)


def to_import_anew(product: Product, changed: Collection[str]) -> set[str]:
    """Return the modules that changed, and all that lead to one of these: a package takes along what is in it."""
    found: set[str] = set()
    left = set(changed)
    while left:
        name = left.pop()
        found.add(name)
        inside = {other for other in product.sources if other.startswith(f"{name}.")}
        left |= (product.importers.get(name, set()) | inside) - found
    return found


def _imported(source: str) -> set[str]:
    """Return the names that may be modules: what is imported, and from where."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def run(arguments: list[str], environment: Mapping[str, str], seconds: float, product: Product) -> tuple[int, str]:
    """Return exit code and output of one run; killed with all it has started when the time is over."""
    with TemporaryFile("w+") as sink:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.environ.update(environment)
            _forget_changed(product)
            code = _run_at(sink, arguments)
            os._exit(code)
        waiting = os.pidfd_open(pid)
        try:
            in_time = bool(select.select([waiting], [], [], seconds)[0])
            if not in_time:
                os.killpg(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
        finally:
            os.close(waiting)
        sink.seek(0)
        return os.waitstatus_to_exitcode(status), sink.read() + ("" if in_time else f"\nnot within {seconds:.0f} s")


def _run_at(sink: IO[str], arguments: list[str]) -> int:
    """Run pytest with `sink` for all that it or a program of its prints."""
    sys.stdout.flush()
    descriptors = os.dup(1), os.dup(2)
    try:
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
        return int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in enumerate(descriptors, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _forget_changed(product: Product) -> None:
    stale = to_import_anew(product, [name for name, source in product.sources.items() if _source(name) != source])
    registered = prometheus_client.REGISTRY
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        if name in product.sources and name not in stale:
            continue
        # `from package import module` takes what the package has, if that stays.
        package, _, leaf = name.rpartition(".")
        if package in sys.modules:
            vars(sys.modules[package]).pop(leaf, None)
        for value in vars(sys.modules.pop(name)).values():
            # A metric of this name is made once more.
            if isinstance(value, MetricWrapperBase) and value in registered._collector_to_names:
                registered.unregister(value)


def main(seconds: float) -> None:
    """Serve until stdin ends; the first line is empty, when all is imported."""
    import_libraries()
    product = import_product()
    print("{}", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        code, output = run(job["arguments"], job["environment"], seconds, product)
        print(json.dumps({"code": code, "output": output}), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
