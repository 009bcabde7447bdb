"""Fields that are decided when an instance is created, and those that have no effect in this version."""

from __future__ import annotations

from collections.abc import Iterator

from tests.integration.controller.fields.changes import BRIDGE, SPEC, Change, new_variable, variable
from tests.support.kube import Json

CLAIM = "PersistentVolumeClaim"
SIZES = {"queue": "2Gi", "workspace": "10Gi"}


def choices() -> Iterator[Change]:
    """Yield what may be chosen for each volume, with all that differs from an instance that chose nothing."""
    for volume in ("queue", "workspace"):
        storage = {"size": "2Gi", "storageClassName": "fast", "accessModes": ["ReadWriteMany"]}
        at = f"{CLAIM}[{volume}].spec"
        yield Change(
            f"{volume} on a claim",
            {volume: {"storage": storage}},
            {
                f"{at}.resources.requests.storage": "2Gi",
                f"{at}.storageClassName": "fast",
                f"{at}.accessModes[0]": "ReadWriteMany",
            },
        )
        at = f"{SPEC}.volumes[{volume}]"
        yield Change(
            f"{volume} on an existing claim",
            {volume: {"existingClaim": "mine"}},
            {f"{at}.persistentVolumeClaim.claimName": "mine", **gone(volume)},
        )
        yield Change(
            f"{volume} with the pod's life",
            {volume: {"ephemeral": True}},
            {f"{at}.emptyDir.sizeLimit": SIZES[volume], **gone_with_pod(volume)},
        )
        yield Change(
            f"{volume} with the pod's life and a size",
            {volume: {"ephemeral": True, "sizeLimit": "3Gi"}},
            {f"{at}.emptyDir.sizeLimit": "3Gi", **gone_with_pod(volume)},
        )


def gone(volume: str) -> Json:
    """Return the effect of a claim that is not made."""
    return {f"{CLAIM}[{volume}]": None}


def gone_with_pod(volume: str) -> Json:
    """Return what a volume that goes with its pod differs in, its size apart."""
    name = "EFRIT_EPHEMERAL_QUEUE"
    of_bridge = {f"{BRIDGE}.env[{name}].name": name, **variable(BRIDGE, name, "1")}
    ephemeral_queue = {**new_variable(name, "1"), **of_bridge} if volume == "queue" else {}
    return {f"{SPEC}.volumes[{volume}].persistentVolumeClaim": None, **gone(volume), **ephemeral_queue}


NO_CHOICE = {"spec.model.provider": "anthropic"}
"""Fields of which there is one value only."""

NOTHING_WITHOUT_A_MODEL = {
    "spec.queue.concurrency": 9,
    "spec.limits.maxToolCalls": 9,
    "spec.limits.maxRepeatedCalls": 9,
    "spec.limits.maxIterations": 9,
    "spec.limits.maxTokens": 9,
    "spec.limits.iterationTimeoutSeconds": 9,
    "spec.limits.commandTimeoutSeconds": 9,
    "spec.tools.allow": ["file_read"],
    "spec.tools.deny": ["eval_sexp"],
}
"""Fields of chats and commands: an instance without a model must not be restarted for them."""

BEHAVIOUR = {
    **dict.fromkeys(
        ("spec.queue.stalledAfterSeconds", "spec.queue.backloggedAfterSeconds", "spec.queue.backloggedPercent"),
        "../../../unit/controller/decide/test_queue_health.py::test_an_instance_sets_its_own_thresholds",
    ),
    "spec.operatingMode": "test_live.py::test_a_suspended_instance_comes_back_as_it_was",
    "spec.idle.suspendAfterSeconds": "test_live.py::test_an_instance_that_fell_asleep_wakes_when_idle_is_taken_back",
    "spec.idle.deleteAfterSeconds": "../test_instances.py::"
    "test_idle_instances_sleep_or_go_and_work_wakes_the_sleeper",
}
"""Fields whose effect takes a running instance: the tests that show it."""
