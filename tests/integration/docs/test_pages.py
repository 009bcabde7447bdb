"""What the pages for users tell to do is done here, and prints what they show."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from efrit import resources
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.integration.client.conftest import laptop
from tests.integration.docs.pages import COMMANDS, PAGES, Block, blocks_of, matches, played_in
from tests.integration.docs.shell import play
from tests.model.running import KEY, Model
from tests.support.efrit_program import Program
from tests.support.forked_programs import stand_ins
from tests.support.kube import Kube
from tests.support.timeout import TIMEOUT

# A page is many programs one after the other; on a busy machine each takes seconds.

BIN = Path(sys.executable).parent
ALL = [block for page, place in PAGES.items() for block in blocks_of(page, place)]


def page_by_page(place: str) -> list[pytest.param]:  # type: ignore[valid-type]
    groups = itertools.groupby(played_in(place), key=lambda block: block.page)
    return [pytest.param(list(blocks), id=page) for page, blocks in groups]


def check(blocks: list[Block], env: dict[str, str], cwd: Path, scratch: Path, replace: dict[str, str]) -> None:
    ran = play(blocks, env, cwd, scratch, replace)
    problems = [result.problem for result in ran if result.problem]
    assert problems == [], "\n\n".join(problems)


def on_path(env: dict[str, str], scratch: Path, *more: Path) -> dict[str, str]:
    """Return an environment whose shells find our programs, as forks of what has imported them."""
    return {**env, "PATH": os.pathsep.join(map(str, [stand_ins(scratch / "stand-ins"), BIN, *more, env["PATH"]]))}


@pytest.fixture
def fresh(model: Model) -> Iterator[Program]:
    with laptop({}) as made:
        Path(made.env["EFRIT_CONFIG"]).unlink()
        key = Path(made.env["HOME"]) / ".config/efrit/key"
        key.parent.mkdir(parents=True)
        key.write_text(KEY)
        yield made


@pytest.mark.parametrize("blocks", page_by_page("laptop"))
def test_what_a_page_says_works_on_a_fresh_machine(
    blocks: list[Block], fresh: Program, model: Model, tmp_path: Path
) -> None:
    work = Path(fresh.env["HOME"]) / "work"
    work.mkdir()
    check(blocks, on_path(fresh.env, tmp_path), work, tmp_path, {"http://localhost:8080": model.url})


@pytest.mark.parametrize("blocks", page_by_page("cluster"))
def test_what_a_page_says_works_in_a_cluster(blocks: list[Block], in_a_cluster: Program, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(in_a_cluster.env["KUBECONFIG"]).read_text())
    config["contexts"][0]["context"]["namespace"] = in_a_cluster.where[1]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    work = tmp_path / "work"
    work.mkdir()
    env = {**on_path(in_a_cluster.env, tmp_path), "KUBECONFIG": str(tmp_path / "kubeconfig")}
    check(blocks, env, work, tmp_path, {"-n team ": ""})


@pytest.mark.parametrize("blocks", page_by_page("install"))
def test_what_a_page_says_works_on_a_cluster_of_its_own(blocks: list[Block], tmp_path: Path) -> None:
    """No pod runs here: what Helm and the API server take, and what they refuse."""
    programs.ensure_go_programs(["helm", "kubectl"])
    with ControlPlane() as plane:
        kube = Kube(plane)
        try:
            for name in ("team-a", "team-b", "team-c", "some-namespace"):
                kube.call("POST", resources.NAMESPACES.path(), {"metadata": {"name": name}})
            for kind in ("servicemonitors", "prometheusrules"):
                kube.call("POST", resources.DEFINITIONS.path(), _monitoring(kind))
        finally:
            kube.close()
        env = {"HOME": str(tmp_path), "KUBECONFIG": str(plane.kubeconfig), "PATH": os.environ["PATH"]}
        env = on_path(env, tmp_path, programs.program("helm").parent)
        check([*_installation(blocks), *blocks], env, REPOSITORY, tmp_path, {})


def _installation(blocks: list[Block]) -> list[Block]:
    """Return what comes before a page that changes a release: the installation, as its page says it."""
    if "helm install" in "".join(block.text for block in blocks) or "helm upgrade efrit" not in blocks[0].text:
        return []
    return [block for block in blocks_of("docs/install.md", "install") if "helm install efrit-operator" in block.text]


def _monitoring(plural: str) -> dict[str, object]:
    """Return a definition of the Prometheus operator, of which the chart makes objects."""
    kind = {"servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"}[plural]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {
            "name": f"{plural}.monitoring.coreos.com",
            "annotations": {"api-approved.kubernetes.io": "unapproved"},
        },
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.mark.parametrize(
    "block", [block for block in ALL if block.language == "python"], ids=lambda block: f"{block.page}:{block.line}"
)
def test_a_program_of_a_page_runs(block: Block, on_this_machine: Program, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        env=on_this_machine.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_every_page_for_users_is_played() -> None:
    """Those that are left out have no command, or are for those who work on Efrit."""
    fenced = re.compile(rf"^```(?:{'|'.join(COMMANDS)})$", re.M)
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    with_commands = {str(page.relative_to(REPOSITORY)) for page in pages if fenced.search(page.read_text())}
    # Written by `make half-hour` and `make plan-example`, by playing them.
    written = {"docs/first-half-hour.md", "docs/plan-example.md"}
    assert with_commands - written <= set(PAGES)


def test_a_command_that_is_tested_elsewhere_names_a_test_that_is_there() -> None:
    tested = [block for block in ALL if block.tested is not None]
    assert [block.tested for block in tested if not (REPOSITORY / str(block.tested)).exists()] == []


def test_every_link_of_a_page_leads_somewhere() -> None:
    pages = [
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "charts").rglob("README.md"),
    ]
    broken = [
        f"{page.relative_to(REPOSITORY)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", page.read_text())
        if not target.startswith(("http:", "https:")) and not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [("a\n", "a\n", True), ("a …\n", "a bcd\n", True), ("…\nz\n", "a\nb\nz\n", True), ("a\n", "b\n", False)],
)
def test_an_ellipsis_stands_for_anything(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
