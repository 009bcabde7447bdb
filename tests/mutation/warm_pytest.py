"""Runs pytest for one mutant after the other, each in a fork of a process that has imported the libraries.

    python -m tests.mutation.warm_pytest SECONDS DESCRIPTOR

Each message on the socket has the root of a copy, and a socket that a fork for that copy serves. There, each line is
an object with pytest's `arguments` and what is added to its `environment`; the answer one with its exit `code` and
`output`.
The product is imported once, from the copy that this process is started in and that stays whole. A run in another one
imports anew what has another source there, and all that leads to it, so that it sees the sources as they are; half a
second of a processor is saved for most mutants, and five for each copy.
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
import socket
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import prometheus_client
import pytest
from prometheus_client.metrics import MetricWrapperBase

LIBRARIES = Path(__file__).with_name("libraries.py")
MAX_BYTES = 4096
"""What the name of a directory may have."""
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

    @property
    def places(self) -> list[str]:
        """Return the modules that look where they are: in another copy they are imported anew."""
        return [name for name, source in self.sources.items() if "__file__" in source]


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
    changed = [name for name, source in product.sources.items() if _source(name) != source]
    stale = to_import_anew(product, [*changed, *product.places])
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


def move(old: str, new: str) -> None:
    """Make the copy at `new` the one that this process is of: what it starts and imports from now on."""

    def moved(path: str) -> str:
        return new + path.removeprefix(old) if path == old or path.startswith(f"{old}/") else path

    os.chdir(new)
    sys.path[:] = map(moved, sys.path)
    sys.path_importer_cache.clear()
    for name in ("executable", "prefix", "exec_prefix"):
        setattr(sys, name, moved(getattr(sys, name)))
    for name, module in sys.modules.items():
        if name.partition(".")[0] != PRODUCT:
            continue
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        module.__file__ = spec.origin = moved(spec.origin)
        if spec.submodule_search_locations is not None:
            module.__path__ = spec.submodule_search_locations = list(map(moved, spec.submodule_search_locations))


def serve(connection: socket.socket, seconds: float, product: Product) -> None:
    """Run what is asked for until the other side has closed the connection."""
    with connection, connection.makefile("r") as jobs:
        for line in jobs:
            job = json.loads(line)
            code, output = run(job["arguments"], job["environment"], seconds, product)
            connection.sendall(f"{json.dumps({'code': code, 'output': output})}\n".encode())


def main(seconds: float, copies: socket.socket) -> None:
    """Serve each copy in a fork of this process, until the other side has closed the socket."""
    import_libraries()
    product = import_product()
    whole = str(Path.cwd())
    while True:
        root, descriptors, _, _ = socket.recv_fds(copies, MAX_BYTES, 1)
        if not root:
            break
        if os.fork() == 0:
            copies.close()
            move(whole, root.decode())
            serve(socket.socket(fileno=descriptors[0]), seconds, product)
            os._exit(0)
        os.close(descriptors[0])
    with suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    main(float(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
