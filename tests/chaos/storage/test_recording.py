"""The recorder sees everything: its record of a request's whole life is compared with what strace saw of the same."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.storage.recording import Client, WatchedInstance, counting_form
from tests.chaos.storage.scenarios import LARGE, cancelled
from tests.support.faults.file_shim.shim import FileShim, Operation
from tests.support.timeout import TIMEOUT

CHANGING = (
    "open,openat,openat2,creat,write,pwrite64,writev,pwritev,pwritev2,rename,renameat,renameat2,link,linkat,unlink,"
    "unlinkat,rmdir,mkdir,mkdirat,symlink,symlinkat,mknod,mknodat,truncate,ftruncate,fallocate,fsync,fdatasync,sync,"
    "syncfs,sync_file_range,sendfile,copy_file_range,splice"
)
CALL = re.compile(r"^(\w+)\((.*)\) += (-?\d+)")
OF_DESCRIPTOR = {
    "write": "write",
    "pwrite64": "write",
    "writev": "write",
    "fsync": "fsync",
    "fdatasync": "fsync",
    "ftruncate": "truncate",
}
OF_NAMES = {
    "mkdir": "mkdir",
    "unlink": "unlink",
    "rmdir": "unlink",
    "rename": "rename",
    "renameat2": "rename",
    "link": "link",
    "symlink": "symlink",
    "truncate": "truncate",
}

Seen = Counter[tuple[str, str, bool]]


def traced(trace: Path, roots: tuple[Path, ...]) -> Seen:
    """Return what strace saw below `roots`: (kind, path, whether it succeeded), how often."""
    counts: Seen = Counter()
    for line in trace.read_text(errors="replace").splitlines():
        call = CALL.match(line)
        operation = _operation(call[1], call[2]) if call else None
        if (
            call
            and operation
            and any(operation[1] == str(root) or operation[1].startswith(f"{root}/") for root in roots)
        ):
            counts[operation[0], operation[1], int(call[3]) >= 0] += 1
    return counts


def _operation(name: str, arguments: str) -> tuple[str, str] | None:
    if name in ("open", "openat", "openat2", "creat"):
        if not re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", arguments):
            return None
        return "open", _paths(arguments)[0]
    if name in OF_DESCRIPTOR:
        path = re.match(r"\d+<([^>]*)>", arguments)
        return (OF_DESCRIPTOR[name], path[1]) if path else None
    kind = OF_NAMES.get(name) or OF_NAMES.get(name.removesuffix("at"))
    if kind is None:
        # A call that nobody has thought of: it will be missing in the record.
        return name, (re.search(r"<(/[^>]*)>", arguments) or [None, ""])[1] or ""
    paths = _paths(arguments)
    return kind, paths[-1] if kind in ("rename", "link", "symlink") else paths[0]


def _paths(arguments: str) -> list[str]:
    """Return the absolute paths of a call: a name in quotes, below the directory that precedes it."""
    paths = []
    for directory, name in re.findall(r"(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?\"([^\"]*)\"", arguments):
        path = name if name.startswith("/") else f"{directory}/{name}"
        paths.append(path.rstrip("/").replace("/./", "/"))
    return paths


def recorded(operations: list[Operation]) -> Seen:
    """Return the same of the record."""
    counts: Seen = Counter()
    for operation in operations:
        if operation.kind == "mark":
            continue
        kind = "open" if operation.kind in ("create", "open", "cut") else operation.kind
        counts[kind, operation.target or operation.path, not operation.failed] += 1
    return counts


@pytest.mark.slow
def test_the_record_of_a_requests_life_has_every_call_that_strace_saw(scratch: Path, lisp: Path) -> None:
    directory = scratch / "traced"
    place, trace = directory / "instance", directory / "trace"
    roots = (place / "volume", place / "workspace")
    shim = FileShim(directory / "chaos", *roots)
    # -D: the program is our child and strace is not, so that signals and exit status are the program's.
    strace = ("strace", "-D", "-ff", "-y", "-s", "0", "-o", str(trace), "-e", f"trace={CHANGING}")
    instance = WatchedInstance(place, lisp, shim.environment, wrap=strace)
    instance.volume.mkdir()
    try:
        client = Client(instance, shim)
        instance.start_bridge()
        instance.start_emacs()
        client.whole("one")
        client.whole("large", counting_form("large", f"(make-string {LARGE} ?x)"))
        cancelled(client)
        # Killed while it still ends, one would be in the middle of a call.
        instance.stop(TIMEOUT)
    finally:
        instance.stop()
    by_strace: Seen = Counter()
    for part in directory.glob("trace.*"):
        by_strace += traced(part, roots)
    by_shim = recorded(shim.operations())
    shutil.rmtree(directory)
    assert by_strace == by_shim, f"missing: {by_strace - by_shim}; made up: {by_shim - by_strace}"
    assert {"open", "write", "fsync", "rename", "link", "unlink", "mkdir"} <= {kind for kind, _, _ in by_shim}
