"""Images the bare node itself needs: pause, CoreDNS, the volume provisioner and a busybox.

Each is a few static files in one layer, so they are written as a docker-archive right here: no registry and no
image builder takes part.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import programs
from tests.cluster.node import PAUSE_IMAGE
from tests.cluster.paths import HERE, cache
from tests.cluster.progress import ClusterError, run, say

COREDNS_IMAGE = "localhost/efrit/coredns:dev"
PROVISIONER_IMAGE = "localhost/efrit/local-path-provisioner:dev"
BUSYBOX_IMAGE = "localhost/efrit/busybox:dev"
PROMETHEUS_IMAGE = "localhost/efrit/prometheus:dev"
METRICS_ADAPTER_IMAGE = "localhost/efrit/metrics-adapter:dev"
# Links made in the busybox image: the shell and what volume scripts and test pods use.
APPLETS = ("sh", "mkdir", "rm", "chmod", "cat", "ls", "echo", "sleep", "id", "nslookup", "wget", "nc", "ps", "true")


@dataclass(frozen=True)
class ScratchImage:
    """An image of static files: path in the image -> file on disk; links: path -> target."""

    name: str
    files: Mapping[str, Path]
    entrypoint: tuple[str, ...]
    links: Mapping[str, str] = field(default_factory=dict)

    def layer(self) -> bytes:
        """Return the one layer, the same bytes for the same content."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            folders = {str(parent) for path in (*self.files, *self.links) for parent in Path(path).parents}
            for folder in sorted({*folders, "tmp", "etc"} - {"."}):
                entry = tarfile.TarInfo(folder)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
                tar.addfile(entry)
            for path, source in sorted(self.files.items()):
                content = source.read_bytes()
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
            for path, target in sorted(self.links.items()):
                entry = tarfile.TarInfo(path)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)
        return buffer.getvalue()

    def write(self, archive: Path) -> None:
        """Write the docker-archive."""
        layer = self.layer()
        config = {
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(self.entrypoint), "Env": ["PATH=/bin"], "User": "65532:65532"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
        encoded = json.dumps(config).encode()
        name = f"{hashlib.sha256(encoded).hexdigest()}.json"
        manifest = [{"Config": name, "RepoTags": [self.name], "Layers": ["layer.tar"]}]
        partial = archive.with_suffix(".partial")
        with tarfile.open(partial, "w") as tar:
            for path, content in (
                (name, encoded),
                ("layer.tar", layer),
                ("manifest.json", json.dumps(manifest).encode()),
            ):
                entry = tarfile.TarInfo(path)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        partial.rename(archive)


def archives() -> dict[str, Path]:
    """Image name -> archive of every image of the node, written if needed."""
    return {image.name: _archive(image) for image in _images()}


def metrics_archives() -> dict[str, Path]:
    """Image name -> archive of Prometheus and the adapter, built and written if needed."""
    built = programs.metrics_programs()
    images = ((PROMETHEUS_IMAGE, "prometheus"), (METRICS_ADAPTER_IMAGE, "metrics_adapter"))
    return {
        name: _archive(ScratchImage(name, {program: built[program]}, (f"/{program}",))) for name, program in images
    }


def _images() -> list[ScratchImage]:
    coredns, provisioner = programs.program("coredns"), programs.program("local-path-provisioner")
    busybox = Path(shutil.which("busybox") or "/bin/busybox")
    return [
        ScratchImage(PAUSE_IMAGE, {"pause": _pause()}, ("/pause",)),
        ScratchImage(COREDNS_IMAGE, {"coredns": coredns}, ("/coredns",)),
        ScratchImage(PROVISIONER_IMAGE, {"local-path-provisioner": provisioner}, ("/local-path-provisioner",)),
        ScratchImage(
            BUSYBOX_IMAGE,
            {"bin/busybox": busybox},
            ("/bin/sh",),
            {f"bin/{applet}": "busybox" for applet in APPLETS},
        ),
    ]


def _archive(image: ScratchImage) -> Path:
    stamps = sorted((path, file.stat().st_size, file.stat().st_mtime_ns) for path, file in image.files.items())
    identity = hashlib.sha256(repr((image, stamps)).encode()).hexdigest()[:16]
    short = image.name.rpartition("/")[2].partition(":")[0]
    path = cache() / "images" / f"node-{short}-{identity}.tar"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in image.files.values():
        if b"/ld-linux" in file.read_bytes()[:4096]:
            raise ClusterError(f"{file} is not statically linked; install the busybox-static package.")
    for old in path.parent.glob(f"node-{short}-*"):
        old.unlink(missing_ok=True)
    say(f"writing image {image.name}")
    image.write(path)
    return path


def _pause() -> Path:
    source = HERE / "pause.c"
    path = cache() / "bin" / f"pause-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        run(["gcc", "-Os", "-static", "-s", "-o", partial, source])
        partial.rename(path)
    return path
