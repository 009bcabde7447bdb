"""The project's images: what each is built from, and archives of them cached by the hash of their inputs."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import base_images, builder, locks, paths
from tests.cluster.builder import Base, BuildahBuilder, Builder, DockerBuilder, Order
from tests.cluster.kind import docker_answers
from tests.cluster.progress import ClusterError, say

# Image name -> docker-archive.
Archives = dict[str, Path]

_EMACS = ("emacs-nox", "git", "openssh-client", "curl", "ca-certificates")
PYTHON = Base("python", "trixie", ("python3",))
EMACS_30 = Base("emacs30", "trixie", _EMACS)
EMACS_28 = Base("emacs28", "bookworm", _EMACS)
EMACS_INPUTS = ("images/emacs/slim",)
LOCKS = ("requirements/operator.txt", "requirements/build.txt")
KEPT_ARCHIVES = 2


@dataclass(frozen=True)
class Image:
    """One image: its short name, its Dockerfile, and the files and folders of the repository that go in.

    bases: what stands in, without a registry, for the base that each argument of the Dockerfile names. others:
    argument -> Dockerfile and argument of the base to use instead. options: other arguments of the Dockerfile.
    on_demand: it is built when it is named only.
    """

    short: str
    name: str
    dockerfile: str
    inputs: tuple[str, ...] = ()
    bases: dict[str, Base] = field(default_factory=dict)
    others: dict[str, tuple[str, str]] = field(default_factory=dict)
    python: bool = False
    options: dict[str, str] = field(default_factory=dict)
    on_demand: bool = False

    def references(self) -> dict[str, str]:
        """Argument -> base image in a registry, for those in `others`."""
        return {
            argument: base_images.references(paths.REPOSITORY / dockerfile)[other]
            for argument, (dockerfile, other) in self.others.items()
        }


IMAGES = (
    Image(
        "operator",
        "localhost/efrit/operator:dev",
        "images/operator/Dockerfile",
        (*LOCKS, "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "operator", "images/emacs/lisp"),
        {"PYTHON_IMAGE": PYTHON, "LISP_IMAGE": EMACS_28},
        python=True,
    ),
    Image("emacs", "localhost/efrit/emacs:30-dev", "images/emacs/Dockerfile", EMACS_INPUTS, {"BASE_IMAGE": EMACS_30}),
    Image(
        "emacs28",
        "localhost/efrit/emacs:28-dev",
        "images/emacs/Dockerfile",
        EMACS_INPUTS,
        {"BASE_IMAGE": EMACS_28},
        {"BASE_IMAGE": ("images/operator/Dockerfile", "LISP_IMAGE")},
    ),
    Image(
        "native",
        "localhost/efrit/emacs:30-native-dev",
        "images/emacs/Dockerfile",
        EMACS_INPUTS,
        {"BASE_IMAGE": EMACS_30},
        options={"NATIVE_COMPILATION": "yes"},
        on_demand=True,
    ),
)


def names() -> list[str]:
    """Short names of all images."""
    return [image.short for image in IMAGES]


def build(image_names: Sequence[str] = (), *, refresh: bool = False) -> Archives:
    """Build the named images, or all but those on demand, unless an archive of the same inputs is there."""
    unknown = set(image_names) - set(names())
    if unknown:
        raise ClusterError(f"There is no image {', '.join(sorted(unknown))}; there are {', '.join(names())}.")
    engine: Builder = DockerBuilder() if docker_answers() else BuildahBuilder()
    engine.tools()
    done = {}
    # Clones share the bases and the archives of this machine.
    with locks.exclusive_lock(paths.cache() / "images.lock", "another process is building images: waiting for it"):
        if refresh:
            engine.refresh()
        for image in IMAGES:
            if image.short in image_names or not (image_names or image.on_demand):
                done[image.name] = _build(image, engine, anew=refresh)
        record = paths.state() / "images.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        written = record.with_suffix(".new")
        written.write_text(json.dumps({name: str(path) for name, path in {**built(), **done}.items()}, indent=1))
        written.replace(record)
    return done


def built() -> Archives:
    """Return the archives of the images this clone built last; those that the cache has lost are left out."""
    try:
        archives = json.loads((paths.state() / "images.json").read_text())
    except (OSError, ValueError):
        return {}
    return {name: Path(path) for name, path in archives.items() if Path(path).exists()}


def fingerprint(image: Image, engine: str) -> str:
    """Hash of everything that decides the image: Dockerfile, inputs, bases, builder."""
    files = [(path.relative_to(paths.REPOSITORY).as_posix(), _hash(path)) for path in _files(image)]
    bases = sorted((argument, base.recipe()) for argument, base in image.bases.items())
    return builder.digest([engine, image.name, files, bases, image.references(), image.options])


def _build(image: Image, engine: Builder, *, anew: bool) -> Path:
    folder = paths.cache() / "images"
    archive = folder / f"{image.short}-{fingerprint(image, engine.name)}.tar"
    if anew:
        archive.unlink(missing_ok=True)
    if archive.exists():
        archive.touch()  # the age decides which archives are let go
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    wheels = None
    if image.python and engine.wants_wheels:
        wheels = builder.wheels([paths.REPOSITORY / lock for lock in LOCKS])
    with tempfile.TemporaryDirectory(prefix="efrit-image-") as scratch:
        context = Path(scratch)
        _fill(context, image)
        dockerfile = context / image.dockerfile
        references = image.references()
        engine.build(Order(image.name, context, dockerfile, image.bases, references, wheels, partial, image.options))
    partial.rename(archive)
    say(f"{image.name}: {archive.stat().st_size / 1e6:.0f} MB")
    old = sorted(folder.glob(f"{image.short}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in old[KEPT_ARCHIVES:]:
        path.unlink(missing_ok=True)
    return archive


def _fill(context: Path, image: Image) -> None:
    """Copy the inputs, and nothing else, into the build context."""
    for input_path in image.inputs:
        # A Dockerfile's COPY wants the folder even where the tree has nothing in it yet.
        if not (paths.REPOSITORY / input_path).is_file():
            (context / input_path).mkdir(parents=True, exist_ok=True)
    for path in _files(image):
        target = context / path.relative_to(paths.REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _files(image: Image) -> list[Path]:
    """All files of the image's inputs, sorted; compiled ones are left out."""
    files = {paths.REPOSITORY / image.dockerfile}
    for input_path in image.inputs:
        path = paths.REPOSITORY / input_path
        files.update(path.rglob("*") if path.is_dir() else [path])
    return sorted(
        path
        for path in files
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".elc")
    )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
