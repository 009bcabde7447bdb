"""What the API server does with the definitions beside validating: defaults, selectors, columns, names, explain."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from efrit.api.instance import InstanceSpec
from efrit.api.meta import ApiModel
from efrit.api.plan import PlanSpec
from efrit.api.request import RequestSpec
from efrit.errors import ApiError
from tests.cluster import programs
from tests.cluster.control_plane import ControlPlane
from tests.support.kube import Json, Kube
from tests.support.timeout import TIMEOUT

REQUEST: Json = {"spec": {"instanceRef": {"name": "one"}, "type": "eval", "content": "(+ 1 2)"}}
PLAN: Json = {"spec": {"instanceRef": {"name": "one"}, "intent": {"description": "Build it."}}}
TIME = "2026-01-01T00:00:00Z"
OPEN = "status.phase!=Succeeded,status.phase!=Failed"


@pytest.fixture(scope="session")
def kubectl(plane: ControlPlane, kube: Kube) -> Callable[..., str]:
    """Run kubectl as administrator and return what it printed."""
    programs.ensure_go_programs(["kubectl"])

    def run(*words: str) -> str:
        command = [str(programs.program("kubectl")), f"--kubeconfig={plane.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def _create(kube: Kube, namespace: str, name: str, **spec: object) -> None:
    kube.create("efritrequests", namespace, {"metadata": {"name": name}, "spec": {**REQUEST["spec"], **spec}})


def _phase(kube: Kube, namespace: str, name: str, phase: str, **more: object) -> None:
    kube.patch("efritrequests", namespace, name, {"status": {"phase": phase, **more}}, "status")


def _defaults(model: type[ApiModel], given: Json | None = None) -> Json:
    """Return what the model makes of a spec, without the empty lists and objects, which a cluster leaves out."""

    def filled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        parts = {key: filled(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in ([], {})}

    spec: Json = filled(model.model_validate(given or {}).to_wire())
    return spec


def test_an_instance_without_a_spec_gets_every_default(kube: Kube, namespace: str) -> None:
    made = kube.create("efritinstances", namespace, {"metadata": {"name": "plain"}})["spec"]
    assert made == _defaults(InstanceSpec)
    assert (made["operatingMode"], made["emacs"]) == ("Running", {"daemonName": "efrit"})


def test_what_is_given_in_part_is_filled_up(kube: Kube, namespace: str) -> None:
    spec = {
        "queue": {"ephemeral": True, "maxPending": 5},
        "workspace": {"storage": {"size": "5Gi"}},
        "model": {"name": "m", "apiKeySecretRef": {"name": "s", "key": "k"}},
    }
    made = kube.create("efritinstances", namespace, {"metadata": {"name": "part"}, "spec": spec})["spec"]
    assert made == _defaults(InstanceSpec, spec)
    assert made["workspace"] == {"storage": {"size": "5Gi", "accessModes": ["ReadWriteOnce"]}}
    assert "storage" not in made["queue"]
    assert made["model"]["baseURL"] == "https://api.anthropic.com"


def test_a_request_gets_its_defaults_and_no_more(kube: Kube, namespace: str) -> None:
    made = kube.create("efritrequests", namespace, {"metadata": {"name": "plain"}, **REQUEST})
    assert made["spec"] == _defaults(RequestSpec, REQUEST["spec"])
    assert "status" not in made


def test_a_plan_gets_its_defaults_and_no_more(kube: Kube, namespace: str) -> None:
    made = kube.create("efritplans", namespace, {"metadata": {"name": "plain"}, **PLAN})
    assert made["spec"] == _defaults(PlanSpec, PLAN["spec"])
    assert "status" not in made


def test_a_status_given_at_creation_is_dropped(kube: Kube, namespace: str) -> None:
    manifest = {"metadata": {"name": "forged"}, **REQUEST, "status": {"phase": "Succeeded", "result": "forged"}}
    assert "status" not in kube.create("efritrequests", namespace, manifest)


def test_an_unknown_field_is_refused_by_strict_validation(kube: Kube, namespace: str) -> None:
    with pytest.raises(ApiError, match=r'unknown field "spec\.contnet"'):
        kube.create(
            "efritrequests",
            namespace,
            {"metadata": {"name": "typo"}, "spec": {**REQUEST["spec"], "contnet": "x"}},
            fieldValidation="Strict",
        )


def test_requests_are_selected_by_phase_instance_pool_and_type(kube: Kube, namespace: str) -> None:
    _create(kube, namespace, "new")
    _create(kube, namespace, "other", instanceRef={"name": "two"}, type="chat")
    _create(kube, namespace, "chosen", instanceRef=None, selector={"matchLabels": {"a": "b"}})
    _create(kube, namespace, "pooled", instanceRef=None, poolRef={"name": "crew"})
    _create(kube, namespace, "done")
    _phase(kube, namespace, "done", "Succeeded")
    _phase(kube, namespace, "chosen", "Running", instanceName="two")

    def names(selector: str) -> set[str]:
        return {
            request["metadata"]["name"] for request in kube.list("efritrequests", namespace, fieldSelector=selector)
        }

    assert names(OPEN) == {"new", "other", "chosen", "pooled"}
    assert names("status.phase=Succeeded") == {"done"}
    assert names("status.phase=") == {"new", "other", "pooled"}
    assert names("status.instanceName=two") == {"chosen"}
    assert names("spec.instanceRef.name=two") == {"other"}
    assert names("spec.poolRef.name=crew") == {"pooled"}
    assert names("spec.type=chat") == {"other"}


def test_instances_are_selected_by_mode_and_phase(kube: Kube, namespace: str) -> None:
    kube.create("efritinstances", namespace, {"metadata": {"name": "up"}})
    kube.create("efritinstances", namespace, {"metadata": {"name": "down"}, "spec": {"operatingMode": "Suspended"}})
    kube.patch("efritinstances", namespace, "up", {"status": {"phase": "Ready"}}, "status")
    for selector, name in (("spec.operatingMode=Suspended", "down"), ("status.phase=Ready", "up")):
        instances = kube.list("efritinstances", namespace, fieldSelector=selector)
        assert [instance["metadata"]["name"] for instance in instances] == [name]


def test_leaving_the_watched_selection_arrives_as_deleted(kube: Kube, namespace: str) -> None:
    with kube.watch("efritrequests", namespace, fieldSelector=OPEN) as events:
        _create(kube, namespace, "work")
        received = [next(events)]
        _phase(kube, namespace, "work", "Running")
        received.append(next(events))
        _phase(kube, namespace, "work", "Succeeded", result="3")
        received.append(next(events))
    assert [event["type"] for event in received] == ["ADDED", "MODIFIED", "DELETED"]
    # The object as it is now, or as it was last selected: a watcher cannot tell, and has to ask.
    assert received[-1]["object"]["metadata"]["name"] == "work"
    assert kube.get("efritrequests", namespace, "work")["status"]["result"] == "3"


def _table(kube: Kube, namespace: str, plural: str) -> tuple[list[str], list[str], Json]:
    """Return the narrow columns, the wide ones, and the cells of the only row by column."""
    table = kube.table(plural, namespace)
    columns = table["columnDefinitions"]
    cells = {column["name"]: cell for column, cell in zip(columns, table["rows"][0]["cells"], strict=True)}
    narrow, wide = ([column["name"] for column in columns if column["priority"] == priority] for priority in (0, 1))
    return narrow, wide, cells


def test_the_columns_of_a_request_show_its_progress(kube: Kube, namespace: str) -> None:
    _create(kube, namespace, "work", instanceRef=None, poolRef={"name": "crew"})
    done = {"reason": "EvalError", "instanceName": "one", "executionSeconds": 1.5, "result": "nil"}
    _phase(kube, namespace, "work", "Failed", **done, error={"code": "void-variable", "message": "x is void"})
    narrow, wide, cells = _table(kube, namespace, "efritrequests")
    assert narrow == ["Name", "Instance", "Pool", "Type", "Phase", "Reason", "Duration", "Age"]
    assert wide == ["Result", "Error"]
    expected = {"Instance": "one", "Pool": "crew", "Type": "eval", "Phase": "Failed", "Reason": "EvalError"}
    assert expected.items() <= cells.items()
    assert cells["Duration"] == 1.5
    assert (cells["Result"], cells["Error"]) == ("nil", "x is void")


def test_the_columns_of_an_instance_show_its_progress(kube: Kube, namespace: str) -> None:
    kube.create("efritinstances", namespace, {"metadata": {"name": "one"}})
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": TIME,
    }
    status = {"conditions": [ready], "queue": {"pending": 1, "processing": 2, "processed": 3}, "image": "emacs:30"}
    kube.patch("efritinstances", namespace, "one", {"status": status}, "status")
    narrow, wide, cells = _table(kube, namespace, "efritinstances")
    assert narrow == ["Name", "Mode", "Ready", "Reason", "Pending", "Processing", "Processed", "Age"]
    assert wide == ["Image", "Last activity"]
    expected = {
        "Mode": "Running",
        "Ready": "True",
        "Pending": 1,
        "Processing": 2,
        "Processed": 3,
        "Image": "emacs:30",
    }
    assert expected.items() <= cells.items()


def test_the_columns_of_a_plan_show_its_progress(kube: Kube, namespace: str) -> None:
    kube.create("efritplans", namespace, {"metadata": {"name": "app"}, **PLAN})
    status = {
        "phase": "Running",
        "reason": "Running",
        "currentTask": "root",
        "step": "Act",
        "instanceName": "one",
        "commitCount": 4,
        "counts": {"tasks": 9, "done": 2},
    }
    kube.patch("efritplans", namespace, "app", {"status": status}, "status")
    narrow, wide, cells = _table(kube, namespace, "efritplans")
    assert narrow == ["Name", "Phase", "Reason", "Task", "Step", "Done", "Tasks", "Age"]
    assert wide == ["Instance", "Commits", "Intent"]
    expected = {"Phase": "Running", "Task": "root", "Step": "Act", "Done": 2, "Tasks": 9, "Commits": 4}
    assert expected.items() <= cells.items()
    assert (cells["Instance"], cells["Intent"]) == ("one", "Build it.")


def test_plans_are_selected_by_phase_and_instance(kube: Kube, namespace: str) -> None:
    for name in ("open", "done"):
        kube.create("efritplans", namespace, {"metadata": {"name": name}, **PLAN})
    ended = {"status": {"phase": "Succeeded", "instanceName": "one"}}
    kube.patch("efritplans", namespace, "done", ended, "status")
    for selector, names in (
        (OPEN, ["open"]),
        ("status.instanceName=one", ["done"]),
        ("spec.instanceRef.name=one", ["done", "open"]),
    ):
        plans = kube.list("efritplans", namespace, fieldSelector=selector)
        assert sorted(plan["metadata"]["name"] for plan in plans) == names


def test_short_names_and_the_category_find_everything(
    kube: Kube, kubectl: Callable[..., str], namespace: str
) -> None:
    kube.create("efritinstances", namespace, {"metadata": {"name": "one"}})
    _create(kube, namespace, "work")
    kube.create("efritplans", namespace, {"metadata": {"name": "app"}, **PLAN})
    kube.create("efritpools", namespace, {"metadata": {"name": "crew"}, "spec": {"replicas": 1}})
    kube.create("efritclaims", namespace, {"metadata": {"name": "ada"}, "spec": {"poolRef": {"name": "crew"}}})
    names = {"instance": "one", "request": "work", "plan": "app", "pool": "crew", "claim": "ada"}
    everything = {f"efrit{kind}.efrit.dev/{name}" for kind, name in names.items()}
    for words in ("efi,efr,efpl,efp,efc", "efrit"):
        assert set(kubectl("get", words, "-n", namespace, "-o", "name").split()) == everything
    shown = kubectl("get", "efr", "-n", namespace)
    assert shown.split()[:8] == ["NAME", "INSTANCE", "POOL", "TYPE", "PHASE", "REASON", "DURATION", "AGE"]


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (
            "efr.spec.content",
            "Lisp forms for an eval (the value of the last is the result), text for a chat or command.",
        ),
        ("efr.spec.retryPolicy", "IfInterrupted runs the work again when Emacs died in the middle of it"),
        ("efr.status.resultRef", "Where the whole result is stored when it is larger."),
        ("efi.spec.queue.maxPending", "Requests the instance takes on, the running one included; more are held back"),
        ("efpl.spec.intent", "The goal. It never changes; add what was forgotten as an amendment."),
        ("efpl.spec.amendments", "Add to the end: the next step sees it."),
        ("efpl.spec.environment.git.secretRef", "The EfritInstance must mount it"),
        ("efpl.status.tree", "The tree, depth first: the path to the current task and its surroundings"),
        ("efi.status.conditions", "Ready (summary), QueueHealthy, EmacsResponsive, Suspended, Updated"),
    ],
)
def test_explain_reads_well(kubectl: Callable[..., str], field: str, sentence: str) -> None:
    assert sentence in " ".join(kubectl("explain", field).split())


def test_the_columns_of_a_pool_show_its_size_and_what_waits(kube: Kube, namespace: str) -> None:
    kube.create("efritpools", namespace, {"metadata": {"name": "crew"}, "spec": {"replicas": 3, "template": {}}})
    available = {"type": "Available", "status": "True", "reason": "Available", "message": ""}
    counts = {"desiredReplicas": 3, "replicas": 2, "ready": 1, "busy": 1, "pending": 7}
    status = {**counts, "conditions": [{**available, "lastTransitionTime": TIME}]}
    kube.patch("efritpools", namespace, "crew", {"status": status}, "status")
    narrow, wide, cells = _table(kube, namespace, "efritpools")
    assert narrow == ["Name", "Wanted", "Members", "Ready", "Busy", "Pending", "Available", "Age"]
    assert wide == []
    expected = {"Wanted": 3, "Members": 2, "Ready": 1, "Busy": 1, "Pending": 7, "Available": "True"}
    assert expected.items() <= cells.items()


def test_the_columns_of_a_claim_show_whose_it_is(kube: Kube, namespace: str) -> None:
    spec = {"poolRef": {"name": "crew"}, "holder": "jo"}
    kube.create("efritclaims", namespace, {"metadata": {"name": "mine"}, "spec": spec})
    status = {"phase": "Bound", "instanceName": "crew-1", "attach": "kubectl exec", "expirationTime": TIME}
    kube.patch("efritclaims", namespace, "mine", {"status": status}, "status")
    narrow, wide, cells = _table(kube, namespace, "efritclaims")
    assert narrow == ["Name", "Pool", "Phase", "Instance", "Holder", "Ready", "Expires", "Age"]
    assert wide == ["Attach"]
    expected = {"Pool": "crew", "Phase": "Bound", "Instance": "crew-1", "Holder": "jo", "Expires": TIME}
    assert expected.items() <= cells.items()
    assert cells["Attach"] == "kubectl exec"
