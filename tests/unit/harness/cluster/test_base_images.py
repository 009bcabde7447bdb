"""tests/cluster/base_images.py: how Dockerfiles name their base images, and what a release refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import base_images, paths
from tests.cluster.cli import main
from tests.cluster.progress import ClusterError

DIGEST = f"sha256:{'0123456789abcdef' * 4}"
OTHER = f"sha256:{'fedcba9876543210' * 4}"
PINNED = f"ARG BASE=debian:trixie-slim@{DIGEST}\nFROM ${{BASE}} AS build\nFROM scratch\nCOPY --from=build / /\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    return tmp_path


def write(repository: Path, text: str, image: str = "emacs") -> Path:
    path = repository / "images" / image / "Dockerfile"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def refused(repository: Path) -> list[str]:
    with pytest.raises(ClusterError) as refusal:
        base_images.check(repository)
    return str(refusal.value).splitlines()[1:]


def test_bases_that_are_named_by_digest_are_accepted_and_printed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, PINNED)
    write(repository, PINNED.replace("debian:trixie-slim", "registry.example.org:5000/a/python:3.13"), "operator")
    assert main(["base-images"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"debian:trixie-slim@{DIGEST}",
        f"registry.example.org:5000/a/python:3.13@{DIGEST}",
    ]


def test_a_base_that_is_named_by_tag_is_refused_with_what_to_run(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, PINNED)
    write(repository, "# comment\nARG PYTHON=python:3.13-slim\nFROM ${PYTHON}\n", "operator")
    assert main(["base-images"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: The base images are not named as a release needs them:",
        "  images/operator/Dockerfile:2: PYTHON is python:3.13-slim, a tag that its registry may give to "
        "another image: run `make pin-bases` and commit the Dockerfiles",
    ]


@pytest.mark.parametrize(
    "digest",
    [
        "",
        "sha256:",
        "sha256:0123",
        DIGEST[:-1],
        f"{DIGEST}0",
        DIGEST.upper(),
        DIGEST.replace("sha256", "sha512"),
        "latest",
    ],
)
def test_a_digest_of_another_form_is_refused(repository: Path, digest: str) -> None:
    write(repository, PINNED.replace(DIGEST, digest))
    [problem] = refused(repository)
    assert "BASE is debian:trixie-slim@" in problem
    assert "whose digest is not `sha256:` and 64 hexadecimal digits: run `make pin-bases`" in problem


@pytest.mark.parametrize("reference", [f"debian@{DIGEST}", "debian", '"debian:trixie"', "${OTHER}", "Debian:trixie"])
def test_a_base_without_a_tag_or_that_is_no_image_is_refused(repository: Path, reference: str) -> None:
    write(repository, PINNED.replace(f"debian:trixie-slim@{DIGEST}", reference))
    assert any(f"BASE is {reference}, which is not image:tag" in problem for problem in refused(repository))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("FROM scratch", "FROM debian:trixie"), "Dockerfile:3: `FROM debian:trixie` names a base image"),
        (("FROM scratch", f"FROM debian:trixie@{DIGEST}"), "Dockerfile:3: `FROM debian:trixie@"),
        (
            ("FROM scratch", "from --platform=linux/amd64 debian"),
            "Dockerfile:3: `from --platform=linux/amd64 debian`",
        ),
        (("FROM scratch", "FROM ${MISSING}"), "Dockerfile:3: `FROM ${MISSING}` names a base image"),
        (
            ("FROM scratch", "FROM ${BASE:-debian:trixie}"),
            "Dockerfile:3: `FROM ${BASE:-debian:trixie}` names a base image",
        ),
        (("FROM scratch", "ARG LATE=debian:trixie\nFROM ${LATE}"), "Dockerfile:4: `FROM ${LATE}` names a base image"),
        (("FROM scratch", "FROM"), "Dockerfile:3: `FROM` names a base image"),
        (("FROM scratch", "FROM \\\ndebian:trixie"), "Dockerfile:3: `FROM \\` names a base image"),
        (("--from=build", "--from=debian:trixie"), "Dockerfile:4: files come from the image debian:trixie"),
        (
            ("COPY", "RUN --mount=type=bind,from=debian:trixie"),
            "Dockerfile:4: files come from the image debian:trixie",
        ),
        (
            ("FROM ${BASE}", "ARG UNUSED=debian:trixie\nFROM ${BASE}"),
            "Dockerfile:2: no FROM uses UNUSED: remove the line",
        ),
        (
            ("FROM ${BASE}", "ARG EMPTY\nFROM ${BASE}"),
            "Dockerfile:2: a base image is given as one `ARG NAME=image:tag`",
        ),
        (
            ("ARG BASE", "# syntax=docker/dockerfile:1\nARG BASE"),
            "Dockerfile:1: `# syntax=docker/dockerfile:1` changes",
        ),
        (("ARG BASE", "#escape=`\nARG BASE"), "Dockerfile:1: `#escape=`` changes how the file is read"),
    ],
    ids=lambda value: value[1].partition("\n")[0] if isinstance(value, tuple) else "",
)
def test_an_image_that_is_named_elsewhere_than_in_an_argument_of_its_own_is_refused(
    repository: Path, change: tuple[str, str], problem: str
) -> None:
    write(repository, PINNED.replace(*change))
    assert any(problem in line for line in refused(repository)), refused(repository)


def test_lines_that_only_look_like_an_image_are_not_taken_for_one(repository: Path) -> None:
    write(repository, f"{PINNED}COPY --from=0 /a /b\n# FROM debian:trixie\nRUN echo \\\n  from there\nFROM build\n")
    assert [base.reference for base in base_images.check(repository)] == [f"debian:trixie-slim@{DIGEST}"]


def test_without_a_single_base_nothing_is_proven(repository: Path) -> None:
    [problem] = refused(repository)
    assert "images: no Dockerfile there names a base image in an ARG line" in problem


def test_pinning_writes_the_digests_of_the_day_and_nothing_else(repository: Path) -> None:
    one = write(repository, f"# a\n{PINNED}# b\n")
    two = write(repository, "ARG LISP=debian:trixie-slim\nARG X=python:3.13\nFROM ${LISP}\nFROM ${X}\n", "operator")
    references: list[str] = []

    def resolve(tagged: str) -> str:
        references.append(tagged)
        return OTHER

    base_images.pin(repository, resolve)

    assert references == ["debian:trixie-slim", "python:3.13"]
    assert one.read_text() == f"# a\n{PINNED}# b\n".replace(DIGEST, OTHER)
    assert two.read_text() == (
        f"ARG LISP=debian:trixie-slim@{OTHER}\nARG X=python:3.13@{OTHER}\nFROM ${{LISP}}\nFROM ${{X}}\n"
    )
    assert len(base_images.check(repository)) == 3


def test_where_one_base_cannot_be_found_out_no_dockerfile_is_changed(repository: Path) -> None:
    one, two = write(repository, PINNED), write(repository, PINNED.replace("debian", "python"), "operator")

    def resolve(tagged: str) -> str:
        if tagged.startswith("python"):
            raise ClusterError("no such image")
        return OTHER

    with pytest.raises(ClusterError, match="no such image"):
        base_images.pin(repository, resolve)
    assert (one.read_text(), two.read_text()) == (PINNED, PINNED.replace("debian", "python"))


def test_pinning_refuses_what_it_could_not_write(repository: Path) -> None:
    write(repository, PINNED.replace("FROM scratch", "FROM debian:trixie"))
    with pytest.raises(ClusterError, match="name it in an ARG line before the first FROM"):
        base_images.pin(repository, lambda tagged: OTHER)


def test_all_that_keeps_our_own_dockerfiles_from_a_release_is_tags() -> None:
    try:
        base_images.check(paths.REPOSITORY)
    except ClusterError as refusal:
        problems = str(refusal).splitlines()[1:]
        assert [
            problem for problem in problems if not re.search(rf"a tag that .+: {base_images.PIN}$", problem)
        ] == []


def test_a_release_begins_with_the_check_of_the_bases() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "release-check", f"PYTHON={sys.executable}"],
        cwd=paths.REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert plan[0].endswith("-m tests.cluster base-images --verify")
