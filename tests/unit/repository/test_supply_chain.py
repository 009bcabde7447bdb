"""What is built and run here is named so that nobody else can change it."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.cluster.paths import REPOSITORY

DOCKERFILES = sorted((REPOSITORY / "images").glob("*/Dockerfile"))


def test_each_action_is_named_by_its_commit() -> None:
    workflows = "".join(path.read_text() for path in (REPOSITORY / ".github" / "workflows").iterdir())
    used = re.findall(r"uses: (\S+)", workflows)

    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_the_check_of_a_tag_begins_with_its_base_images() -> None:
    text = (REPOSITORY / ".github/workflows/ci.yaml").read_text()
    workflow = yaml.load(text, yaml.BaseLoader)  # noqa: S506 -- makes texts alone: "on" would become a boolean
    steps = [step for step in workflow["jobs"]["check"]["steps"] if "run" in step]

    assert workflow["on"]["push"]["tags"] == ["v*"]
    commands = [step["run"] for step in steps]
    assert steps[commands.index("make check-bases")]["if"] == "github.ref_type == 'tag'"
    assert commands.index("make check-bases") < commands.index("make check") < commands.index("make images scan")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_whoever_builds_an_image_can_name_each_base_by_its_digest(path: str) -> None:
    lines = (REPOSITORY / path).read_text().splitlines()
    arguments = {f"${{{line.split()[1].partition('=')[0]}}}" for line in lines if line.startswith("ARG ")}
    froms = [line.split() for line in lines if line.startswith("FROM ")]
    stages = {words[3] for words in froms if words[2:3] == ["AS"]}

    assert froms
    assert {words[1] for words in froms} <= arguments | stages | {"scratch"}
