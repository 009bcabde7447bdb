"""The `docker` and `kind` commands of the pages: the real kind, over an engine that runs nothing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster import programs
from tests.cluster.paths import REPOSITORY
from tests.integration.docs.pages import played_in
from tests.integration.docs.shell import Ran, play

BUILT = ["efrit/operator:0.1.0", "efrit/emacs:30-0.1.0"]

ENGINE = r"""#!/bin/bash
# A Docker engine as far as kind asks one: it keeps the names of what is built, and one node that answers to all.
cd "$(dirname "$0")" || exit 1
printf '%s\n' "$*" >>asked
fail() { echo "$1" >&2; exit 1; }
case "$1" in
  -v | version) echo 'Docker version 29.0.0, build 0' ;;
  info) echo '{"CgroupVersion": "2", "CgroupDriver": "systemd"}' ;;
  build)
    [ "$#" = 6 ] && [ "$2 $4" = '-f -t' ] || fail "unexpected: $*"
    cd "$OLDPWD/$6" && [ -f "$3" ] || fail "no such file: $3"
    cd - >/dev/null && echo "$5" >>images ;;
  push) grep -qxF "$2" images || fail "no such image: $2" ;;
  image) grep -qxF "${!#}" images || fail "no such image: ${!#}"; echo "sha256:${!#}" ;;
  inspect) echo control-plane ;;
  ps) [ ! -f node ] || echo efrit-control-plane ;;
  run) touch node; fail 'this engine runs nothing' ;;
  save) for word; do [[ $word != *:* ]] || grep -qxF "$word" images || fail "no such image: $word"; done; : >"$3" ;;
  # kind takes a node away that did not come up; here it stays, for what comes after.
  exec)
    [[ $* != *'containerd config dump' ]] ||
      printf 'version = 3\n[plugins."io.containerd.cri.v1.images"]\nsnapshotter = "overlayfs"\n' ;;
  rm | network | logs) ;;
  *) fail "unknown command: $1" ;;
esac
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """Return the directory of a `docker`, and of what it was asked."""
    directory = tmp_path / "engine"
    directory.mkdir()
    (directory / "docker").write_text(ENGINE)
    (directory / "docker").chmod(0o755)
    return directory


def environment(home: Path, *directories: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.pathsep.join([*map(str, directories), os.environ["PATH"]])}


def ran(page: str, engine: Path, scratch: Path) -> dict[str, Ran]:
    """Play the commands of a page, by their text."""
    programs.ensure_go_programs(["kind"])
    env = environment(scratch, engine, programs.program("kind").parent)
    blocks = [block for block in played_in("kind") if block.page == page]
    return {result.command: result for result in play(blocks, env, REPOSITORY, scratch, {})}


def test_the_engine_s_commands_and_kind_s_are_those_of_the_page(engine: Path, tmp_path: Path) -> None:
    """Without an engine that runs containers no cluster comes up: kind gets as far as running the node."""
    done = ran("docs/kind.md", engine, tmp_path)
    create = done.pop("kind create cluster --name efrit")
    assert [result.problem for result in done.values() if result.problem] == []
    calls = (engine / "asked").read_text().splitlines()
    assert (engine / "images").read_text().split() == BUILT
    assert "this engine runs nothing" in create.printed
    assert [line for line in calls if line.startswith("run ") and "--name efrit-control-plane" in line] != []
    (saved,) = [line.split() for line in calls if line.startswith("save ")]
    assert saved[3:] == BUILT
    assert any(line.startswith("rm ") and line.endswith("efrit-control-plane") for line in calls)


def test_the_images_for_a_registry_are_built_and_pushed_under_one_name(engine: Path, tmp_path: Path) -> None:
    done = ran("docs/install.md", engine, tmp_path)
    assert [result.problem for result in done.values() if result.problem] == []
    assert (engine / "images").read_text().split() == [f"registry.example.org/{name}" for name in BUILT]


def test_the_images_that_the_page_installs_are_those_that_it_builds(tmp_path: Path) -> None:
    programs.ensure_go_programs(["helm"])
    page = (REPOSITORY / "docs" / "kind.md").read_text()
    settings = [word for value in re.findall(r"--set (\S+)", page) for word in ("--set", value)]
    chart = subprocess.run(
        [str(programs.program("helm")), "template", "efrit-operator", "charts/efrit-operator", *settings],
        cwd=REPOSITORY,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [name for name in BUILT if name not in chart] == []


def test_kind_refuses_what_it_does_not_know(engine: Path, tmp_path: Path) -> None:
    """So the commands above were understood."""
    programs.ensure_go_programs(["kind"])
    (tmp_path / "kind.yaml").write_text(
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{roel: worker}]\n"
    )
    for words, message in ((("--nam", "efrit"), "unknown flag: --nam"), (("--config", "kind.yaml"), "field roel")):
        done = subprocess.run(
            [str(programs.program("kind")), "create", "cluster", *words],
            cwd=tmp_path,
            env=environment(tmp_path, engine),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, message in done.stderr) == (1, True), done.stderr


def test_the_configuration_of_the_test_cluster_is_one_that_kind_reads(engine: Path, tmp_path: Path) -> None:
    programs.ensure_go_programs(["kind"])
    done = subprocess.run(
        [str(programs.program("kind")), "create", "cluster", "--config", str(REPOSITORY / "tests/cluster/kind.yaml")],
        env=environment(tmp_path, engine),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "this engine runs nothing" in done.stderr) == (1, True), done.stderr


def test_the_demo_says_at_once_that_kind_needs_docker(engine: Path, tmp_path: Path) -> None:
    (engine / "docker").write_text("#!/bin/sh\nexit 1\n")
    (block,) = played_in("kind demo")
    (done,) = play([block], environment(tmp_path, engine), REPOSITORY, tmp_path, {})
    assert "CLUSTER=kind needs a running Docker engine" in done.printed
    assert "==> Images" not in done.printed
    assert done.code != 0
