"""Templates of a pool on real parts: one that is broken stops, the former one is set again, some are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from efrit.controller.manifests.pool_history import revision_selector
from efrit.controller.model.names import INSTANCE_LABEL, MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL, REVISION_LABEL
from efrit.resources import CONTROLLER_REVISIONS
from tests.support.efrit_program import Program
from tests.support.kube import Json, until
from tests.support.site import EPHEMERAL, Site
from tests.support.timeout import TIMEOUT

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
ABSENT: Json = {"volumes": [{"name": "data", "secret": {"secretName": "absent"}}]}


@pytest.fixture
def program(site: Site, tmp_path: Path) -> Program:
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(site.plane.kubeconfig)}
    return Program("cluster", env, ("--namespace", site.namespace))


def _template(**spec: Any) -> Json:
    return {"spec": {**EPHEMERAL, **spec}}


def _progressing(status: Json) -> str | None:
    conditions = status.get("conditions", ())
    return next((each["reason"] for each in conditions if each["type"] == "Progressing"), None)


def _until(site: Site, reason: str, **expected: Any) -> Json:
    def reached() -> Json | None:
        status = site.pool_status()
        generation = site.kube.get("efritpools", site.namespace, "crew")["metadata"]["generation"]
        wanted = {**expected, "observedGeneration": generation}
        return status if _progressing(status) == reason and wanted.items() <= status.items() else None

    return until(
        reached, lambda: f"the pool is not {reason}, {expected}: {site.pool_status()}\n{site.logs()}", TIMEOUT
    )


def _kept(site: Site) -> dict[int, str]:
    """Return the templates that are kept: number and digest."""
    revisions = site.kube.list("controllerrevisions", site.namespace)
    assert {each["metadata"]["ownerReferences"][0]["kind"] for each in revisions} <= {"EfritPool"}
    return {each["revision"]: each["metadata"]["labels"]["efrit.dev/pool-revision"] for each in revisions}


def _until_numbered(site: Site, *numbers: int) -> dict[int, str]:
    def reached() -> dict[int, str] | None:
        kept = _kept(site)
        return kept if sorted(kept) == list(numbers) else None

    return until(reached, lambda: f"kept are {_kept(site)} and not {numbers}\n{site.logs()}", TIMEOUT)


def _members(site: Site) -> dict[str, str]:
    """Return the members with the templates that they have."""
    members = site.kube.list("efritinstances", site.namespace)
    return {each["metadata"]["name"]: each["metadata"]["labels"]["efrit.dev/pool-revision"] for each in members}


def test_a_broken_template_stops_is_undone_and_no_more_former_ones_are_kept_than_may_be(
    site: Site, program: Program
) -> None:
    operator = site.operator()
    operator.start()
    strategy = {"progressDeadlineSeconds": 2}
    site.pool(replicas=1, updateStrategy=strategy, revisionHistoryLimit=1)
    good = _until(site, "MembersUnchanged", ready=1)["revision"]
    before = _members(site)
    assert before == dict.fromkeys(before, good)
    assert _until_numbered(site, 1) == {1: good}
    refused = program.run("rollout", "undo", "crew")
    assert (refused.code, "crew has no former template to go back to" in refused.err) == (8, True), refused

    site.change_pool(template=_template(podTemplate=ABSENT))
    broken = _until(site, "RevisionFailed", ready=1)["revision"]
    assert sorted(_members(site).values()) == sorted([good, broken])
    assert _until_numbered(site, 1, 2) == {1: good, 2: broken}
    rows = [line.split() for line in program.ok("rollout", "history", "crew").splitlines()]
    assert [row[:4] for row in rows[1:]] == [["1", good, "no", "1"], ["2", broken, "yes", "1"]]

    # Whoever leads next finds both, and makes none anew.
    operator.stop()
    operator.start()
    _until(site, "RevisionFailed", ready=1)
    text = program.ok("rollout", "undo", "crew")
    assert text == "crew has the template of revision 1 again; changed: spec.podTemplate\n"
    _until(site, "MembersUnchanged", ready=1, revision=good, updated=1)
    # The members of the former template have stayed.
    until(lambda: _members(site) == before or None, lambda: f"the members are {_members(site)}", TIMEOUT)
    assert _until_numbered(site, 2, 3) == {2: broken, 3: good}
    assert program.ok("rollout", "undo", "crew", "--to-revision", "3") == (
        "crew has the template of revision 3 already\n"
    )
    # As by somebody who has lost the answer.
    for repeated in ((), ("--to-revision", "1")):
        text = program.ok("rollout", "undo", "crew", *repeated)
        assert text.startswith(
            "crew has the template of revision 1 again already, as revision 3; nothing was changed"
        )

    # Another one: of the former ones only the last is kept.
    env = [{"name": "GREETING", "value": "<hello> & goodbye, \u00e4\u2028\U0001f600"}]
    site.change_pool(template={"spec": {"limits": {"requestTimeoutSeconds": 77}, "podTemplate": {"env": env}}})
    other = _until(site, "MembersUnchanged", ready=1, updated=1, draining=0)["revision"]
    assert _until_numbered(site, 3, 4) == {3: good, 4: other}
    missing = program.run("rollout", "undo", "crew", "--to-revision", "2")
    assert (missing.code, "name one of those there are: 3, 4" in missing.err) == (8, True), missing
    # What a user, or a garbage collector, does with it is not refused for its data.
    change = {"metadata": {"labels": {"mine": "x"}}}
    site.kube.patch("controllerrevisions", site.namespace, f"crew-{other}", change)
    path = CONTROLLER_REVISIONS.path(site.namespace, f"crew-{other}")
    change["metadata"]["labels"]["mine"] = "y"
    site.kube.call("PATCH", path, change, content_type=STRATEGIC_MERGE_PATCH)
    assert "requestTimeoutSeconds: 77" in program.ok("rollout", "history", "crew", "--revision", "4")
    # Those of the StatefulSets of members have the labels of their pods.
    of_pod = {MANAGED_BY_LABEL: MANAGED_BY, POOL_LABEL: "crew", INSTANCE_LABEL: "crew-x"}
    for name, labels in (("efrit-crew-x-1", of_pod), ("efrit-crew-x-2", {**of_pod, REVISION_LABEL: "abc"})):
        theirs = CONTROLLER_REVISIONS.manifest({"name": name, "labels": labels}, data={}, revision=1)
        site.kube.call("POST", CONTROLLER_REVISIONS.path(site.namespace), theirs)
    read = site.kube.list("controllerrevisions", site.namespace, labelSelector=revision_selector("crew"))
    assert {each["metadata"]["name"] for each in read} == {f"crew-{good}", f"crew-{other}"}

    uid = site.kube.get("efritpools", site.namespace, "crew")["metadata"]["uid"]
    orphan = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid}]}}
    kept = site.kube.call("PATCH", path, orphan, content_type=STRATEGIC_MERGE_PATCH)
    assert kept["metadata"].get("ownerReferences", []) == []
