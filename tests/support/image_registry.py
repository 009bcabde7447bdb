"""An image registry on loopback, crane's own, and small images to push to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import programs
from tests.cluster.node_images import ScratchImage
from tests.cluster.ports import free_port
from tests.cluster.progress import wait_until
from tests.support.processes import Process
from tests.support.timeout import TIMEOUT

MARK = "etc/mark"
"""The file in a pushed image that tells it from others."""

APPLETS = ("chown", "mkdir", "rm")
PRETENDED = ("emacs", "git", "ssh", "curl")
"""Programs that a build only looks for."""

SHELL = """\
#!/bin/busybox sh
# find of busybox cannot delete, and nothing in this image is to be cleaned up or taken out by a script.
find() { :; }
sh() { :; }
eval "$2"
"""


class ImageRegistry:
    """A registry at `host`, which takes whatever is pushed."""

    def __init__(self, host: str, directory: Path) -> None:
        self.host = host
        self._directory = directory

    def push(self, name: str, mark: str) -> str:
        """Push an image that images/emacs/Dockerfile can be built from, as `name:tag`, and return its reference."""
        reference = f"{self.host}/{name}"
        archive, content, shell = (self._directory / name for name in ("image.tar", "mark", "shell"))
        content.write_text(mark)
        shell.write_text(SHELL)
        files = {"bin/busybox": Path(shutil.which("busybox") or "/bin/busybox"), "bin/sh": shell, MARK: content}
        files |= {"etc/ssl/certs/ca-certificates.crt": content}
        links = {f"bin/{applet}": "busybox" for applet in (*APPLETS, *PRETENDED)}
        ScratchImage(reference, files, ("/bin/sh",), links).write(archive)
        _crane("push", str(archive), reference)
        # As bases are: what is run in them during a build is run by root.
        _crane("mutate", "--user=0", "--tag", reference, reference)
        return reference


@contextmanager
def image_registry(directory: Path) -> Iterator[ImageRegistry]:
    """Serve a registry whose content is in memory."""
    port = free_port()
    command = [str(programs.crane()), "registry", "serve", "--address", f"127.0.0.1:{port}"]
    process = Process(command, dict(os.environ), directory / "registry.log", directory)

    def listens() -> bool:
        assert process.status is None, process.tail()
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(listens, "a registry", timeout=TIMEOUT, pause=0.01)
        yield ImageRegistry(f"127.0.0.1:{port}", directory)
    finally:
        process.kill()


def _crane(*words: str) -> None:
    done = subprocess.run([programs.crane(), *words], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
