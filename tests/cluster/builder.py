"""Image builders: a Docker engine with its registry, or buildah on root file systems made by mmdebstrap.

Both build the same Dockerfiles; they differ in where the base images come from. Nothing here knows which images
the project has (images.py does).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.cluster import paths, programs
from tests.cluster.progress import ClusterError, run


@dataclass(frozen=True)
class Base:
    """A base image, as it is made from Debian packages without a registry."""

    name: str
    suite: str
    packages: tuple[str, ...]

    def recipe(self) -> str:
        """Hash of all that decides its content but the date."""
        return hashlib.sha256(repr((self, _DEBOOTSTRAP)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Order:
    """One image to be built from a prepared context directory.

    bases: argument of the Dockerfile -> what stands in for that base where there is no registry. references:
    argument -> base image in a registry, where it is not the one that the Dockerfile names. options: the other
    arguments that are given.
    """

    name: str
    context: Path
    dockerfile: Path
    bases: Mapping[str, Base]
    references: Mapping[str, str]
    wheels: Path | None
    archive: Path
    options: Mapping[str, str] = field(default_factory=dict)


class Builder(Protocol):
    """Builds an image into a docker-archive."""

    name: str
    wants_wheels: bool

    def tools(self) -> None:
        """Make sure of the programs it needs."""

    def refresh(self) -> None:
        """Forget cached base images."""

    def build(self, order: Order) -> None:
        """Build and write `order.archive`."""


class DockerBuilder:
    """Docker with base images from its registry."""

    name = "docker"
    wants_wheels = False

    def tools(self) -> None:
        """Nothing: this builder is chosen because Docker answers."""

    def refresh(self) -> None:
        """Nothing to forget: `docker build --pull` asks the registry."""

    def command(self, order: Order) -> list[str]:
        """Return the `docker build` command line; the host's pip configuration is passed as a secret, if there."""
        command = ["docker", "build", "--pull", "--tag", order.name, "--file", str(order.dockerfile)]
        for argument, reference in {**order.references, **order.options}.items():
            command += ["--build-arg", f"{argument}={reference}"]
        if configuration := _pip_configuration():
            command += ["--secret", f"id=pip_conf,src={configuration}"]
        return [*command, str(order.context)]

    def build(self, order: Order) -> None:
        """Build, then save: the archive is what clusters are given."""
        run(self.command(order), doing=f"building {order.name} with Docker", env={"DOCKER_BUILDKIT": "1"})
        run(["docker", "save", "--output", order.archive, order.name])


# Cached build steps in buildah's store before they are let go; an image has about ten.
CACHED_STEPS = 60

_DEBOOTSTRAP = (
    "--mode=root",
    "--variant=minbase",
    "--aptopt=Acquire::Languages none",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
)


class BuildahBuilder:
    """buildah in a store of its own, with base images made from Debian packages."""

    name = "buildah"
    wants_wheels = True

    def tools(self) -> None:
        """Make sure of buildah and mmdebstrap."""
        if os.geteuid() != 0:
            raise ClusterError("Building images without Docker takes root: use sudo, or start Docker.")
        programs.ensure_debian_packages(programs.DEBIAN_IMAGES)

    def refresh(self) -> None:
        """Empty the store: base images are made anew with the packages of the day, old layers go."""
        run([*self._buildah("rmi"), "--all", "--force"])

    def build(self, order: Order) -> None:
        """Build and push to the archive."""
        arguments: list[str] = []
        for argument, base in order.bases.items():
            arguments += ["--build-arg", f"{argument}={self._base(base)}"]
        for argument, value in order.options.items():
            arguments += ["--build-arg", f"{argument}={value}"]
        if order.wheels:
            arguments += ["--volume", f"{order.wheels}:/mnt:ro"]
        # Layers of overlay are differences and worth keeping for the next build; those of vfs are whole copies.
        layers = f"--layers={'true' if self._driver == 'overlay' else 'false'}"
        build = [*self._buildah("build"), "--isolation=chroot", layers, "--pull-never", "--timestamp=0"]
        build += [*arguments, "--tag", order.name, "--file", str(order.dockerfile), str(order.context)]
        run(build, doing=f"building {order.name} with buildah")
        run([*self._buildah("push"), order.name, f"docker-archive:{order.archive}:{order.name}"])
        if self._driver == "vfs":
            run([*self._buildah("rmi"), "--force", order.name])
        unnamed = run([*self._buildah("images"), "--all", "--quiet", "--filter", "dangling=true"]).split()
        if self._driver == "vfs" or len(unnamed) > CACHED_STEPS:
            run([*self._buildah("rmi"), "--prune", "--force"])

    def _base(self, base: Base) -> str:
        """Name of the base image in the store, made if it is not there."""
        name = f"localhost/efrit/base-{base.name}:{base.recipe()}"
        if name in run([*self._buildah("images"), "--format", "{{.Name}}:{{.Tag}}"]).split():
            return name
        work = paths.cache() / "bases"
        work.mkdir(parents=True, exist_ok=True)
        tar = work / f"{base.name}.tar"
        tar.unlink(missing_ok=True)
        command = ["mmdebstrap", *_DEBOOTSTRAP, f"--include={','.join(base.packages)}", base.suite, str(tar)]
        run(command, doing=f"making the base file system {base.name} (Debian {base.suite})")
        (work / "Dockerfile").write_text(f"FROM scratch\nADD {tar.name} /\n")
        run([*self._buildah("build"), "--isolation=chroot", "--layers=false", "--tag", name, str(work)])
        tar.unlink()
        return name

    def _buildah(self, command: str) -> list[str]:
        return [*_store(self._driver), command]

    @functools.cached_property
    def _driver(self) -> str:
        """Storage driver: overlay where the kernel and the file system allow it (not in a container), else vfs."""
        try:
            run([*_store("overlay"), "info"])
        except ClusterError:
            return "vfs"
        return "overlay"


def _store(driver: str) -> list[str]:
    root, runroot = paths.cache() / f"buildah-{driver}", f"/run/efrit-buildah-{driver}"
    return ["buildah", "--root", str(root), "--runroot", runroot, f"--storage-driver={driver}"]


def wheels(locks: list[Path]) -> Path:
    """Directory with the locked wheels for Python 3.13, fetched by the host's pip with the host's settings."""
    machine = platform.machine()
    identity = hashlib.sha256("\0".join([machine, *(lock.read_text() for lock in locks)]).encode()).hexdigest()[:12]
    folder = paths.cache() / "wheels" / identity
    if folder.exists():
        return folder
    partial = folder.with_suffix(".partial")
    command = [*_pip(), "download", "--quiet", "--require-hashes", "--only-binary=:all:", "--dest", str(partial)]
    command += ["--python-version=3.13", "--implementation=cp", "--abi=cp313", "--abi=abi3", "--abi=none"]
    # Debian trixie has glibc 2.41; pip matches each platform tag literally.
    command += [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(41, 4, -1)]
    command += [f"--platform=manylinux2014_{machine}"]
    for lock in locks:
        run([*command, "--requirement", lock], doing=f"fetching the wheels of {lock.name}")
    partial.rename(folder)
    return folder


def _pip() -> list[str]:
    for python in (sys.executable, str(paths.REPOSITORY / ".venv/bin/python"), "/usr/bin/python3"):
        try:
            run([python, "-m", "pip", "--version"])
        except (ClusterError, OSError):
            continue
        return [python, "-m", "pip"]
    raise ClusterError("No pip found to fetch wheels with: install the package python3-pip.")


def _pip_configuration() -> Path | None:
    chosen = os.environ.get("PIP_CONFIG_FILE")
    candidates = [Path(chosen)] if chosen else []
    candidates += [Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf", Path("/etc/pip.conf")]
    return next((path for path in candidates if path.is_file()), None)


def digest(parts: list[object]) -> str:
    """Hash of a JSON-able description."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
