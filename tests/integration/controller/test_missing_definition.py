"""A controller that is newer than the definitions in the cluster: it serves what there is, and pools once it can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from efrit.errors import ApiError
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.cluster.paths import REPOSITORY
from tests.cluster.progress import run
from tests.support.custom_resources import DEFINITIONS, install_crds, until_served
from tests.support.kube import Kube, until
from tests.support.operator import Operator
from tests.support.site import Site

POOLS = f"{DEFINITIONS}/efritpools.efrit.dev"
APPLY = "kubectl apply --server-side --filename charts/efrit-operator/crd-files/efrit.dev_efritpools.yaml"
"""As docs/install.md says it."""
MISSING = "the CustomResourceDefinition efritpools.efrit.dev is missing"


@pytest.fixture(params=[False, True], ids=["one namespace", "the whole cluster"])
def older(lisp: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yield a site on an API server of its own that does not know pools."""
    programs.ensure_go_programs(["kubectl"])
    with ControlPlane() as plane, closing(Kube(plane)) as kube:
        install_crds(kube)
        remove_pools(kube)
        audit_log = plane.directory / "audit.log"
        with closing(Site(plane, kube, audit_log, lisp, everywhere=request.param)) as site:
            yield site


def remove_pools(kube: Kube) -> None:
    kube.call("DELETE", POOLS)

    def unknown() -> bool:
        try:
            kube.list("efritpools", "default")
        except ApiError as refusal:
            return refusal.status == 404
        return False

    until(unknown, "pools are still served")


def apply_pools(site: Site) -> None:
    """Apply the definition as the page says, and return once it is served."""
    assert APPLY in (REPOSITORY / "docs/install.md").read_text()
    _, *words = APPLY.split()
    run([programs.program("kubectl"), f"--kubeconfig={site.plane.kubeconfig}", *words], cwd=REPOSITORY)
    until_served(site.kube, "efritpools")


def log_of(operator: Operator) -> str:
    return operator.process.log.read_text()


def serves(site: Site, name: str) -> None:
    """Assert that a new instance starts, a request is answered and a plan is judged."""
    site.instance(name, queue={"ephemeral": True}, workspace={"ephemeral": True})
    assert site.answer(site.ask("(+ 1 2)", to=name))["result"] == "3"
    intent = {"description": "A program.", "acceptanceCriteria": ["It runs."]}
    manifest = {"metadata": {"name": name}, "spec": {"instanceRef": {"name": name}, "intent": intent}}
    site.kube.create("efritplans", site.namespace, manifest)
    until(
        lambda: site.kube.get("efritplans", site.namespace, name).get("status", {}).get("reason"),
        lambda: f"no status of the plan\n{site.logs()}",
    )


def pool_has_status(site: Site) -> None:
    site.kube.create("efritpools", site.namespace, {"metadata": {"name": "crew"}, "spec": {"replicas": 0}})
    until(
        lambda: site.kube.get("efritpools", site.namespace, "crew").get("status", {}).get("conditions"),
        lambda: f"the pool is not served\n{site.logs()}",
    )


def test_without_the_definition_of_pools_all_else_is_served_and_pools_are_once_it_is_there(older: Site) -> None:
    operator = older.operator()
    operator.start(EFRIT_SWEEP_SECONDS="1")
    serves(older, "before")
    assert log_of(operator).count(MISSING) == 1

    apply_pools(older)
    pool_has_status(older)
    assert "efritpools.efrit.dev is there by now" in log_of(operator)

    remove_pools(older.kube)
    until(lambda: log_of(operator).count(MISSING) == 2, operator.diagnostics)
    serves(older, "after")

    apply_pools(older)
    pool_has_status(older)
    assert operator.leads()
    assert "Traceback" not in log_of(operator)
