"""What `make pin-bases` writes into a Dockerfile decides what is built from it, wherever the tag has gone since."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts.image_scan import files_of
from tests.cluster import base_images
from tests.cluster.builder import DockerBuilder, Order
from tests.cluster.kind import docker_answers
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support.image_registry import MARK, ImageRegistry, image_registry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ImageRegistry]:
    with image_registry(tmp_path) as served:
        yield served


def test_an_image_is_built_from_the_base_that_was_pinned_and_not_from_where_its_tag_has_gone(
    registry: ImageRegistry, tmp_path: Path
) -> None:
    tag = registry.push("base:slim", "first")
    dockerfile = shutil.copytree(REPOSITORY / "images" / "emacs", tmp_path / "images" / "emacs") / "Dockerfile"
    [base] = base_images.read(dockerfile)[0]
    dockerfile.write_text(dockerfile.read_text().replace(base.reference, tag))
    by_tag = Path(shutil.copy(dockerfile, tmp_path / "by-tag"))

    base_images.pin(tmp_path)
    registry.push("base:slim", "second")

    assert _built(dockerfile, tmp_path / "pinned.tar") == "first"
    assert _built(by_tag, tmp_path / "by-tag.tar") == "second"


def _built(dockerfile: Path, archive: Path) -> str:
    """Build the image as docs/install.md says, and return the mark of the base that it was made from."""
    name, context = f"localhost/efrit/{archive.stem}:test", archive.parent / "context"
    shutil.copytree(REPOSITORY / "images" / "emacs", context / "images" / "emacs", dirs_exist_ok=True)
    if docker_answers():
        DockerBuilder().build(Order(name, context, dockerfile, {}, {}, None, archive))
        run(["docker", "rmi", name])
    else:
        store = ["--root", f"{archive}.store", "--runroot", f"{archive}.run", "--storage-driver=vfs"]
        build = ["--isolation=chroot", "--layers=false", "--pull-always", "--tls-verify=false", "--tag", name]
        run(["buildah", *store, "build", *build, "--file", dockerfile, context])
        run(["buildah", *store, "push", name, f"docker-archive:{archive}:{name}"])
    return files_of(archive, (MARK,))[MARK]
