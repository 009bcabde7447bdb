"""What is built and run here is named so that nobody else can change it."""

from __future__ import annotations

import re

import pytest

from tests.cluster.paths import REPOSITORY

DOCKERFILES = sorted((REPOSITORY / "images").glob("*/Dockerfile"))


def test_each_action_is_named_by_its_commit() -> None:
    workflows = "".join(path.read_text() for path in (REPOSITORY / ".github" / "workflows").iterdir())
    used = re.findall(r"uses: (\S+)", workflows)

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_whoever_builds_an_image_can_name_each_base_by_its_digest(path: str) -> None:
    lines = (REPOSITORY / path).read_text().splitlines()
    arguments = {f"${{{line.split()[1].partition('=')[0]}}}" for line in lines if line.startswith("ARG ")}
    froms = [line.split() for line in lines if line.startswith("FROM ")]
    stages = {words[3] for words in froms if words[2:3] == ["AS"]}

    assert froms
    assert {words[1] for words in froms} <= arguments | stages | {"scratch"}
