"""process_end.py: the kubelet's word that a process has ended, and what is no such word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from efrit.controller.process_end import (
    REFUSED_PAUSE_SECONDS,
    ProcessEnds,
    has_ended,
    leave_identity,
    pod_of,
    process_identity,
)
from efrit.errors import ApiError, ApiForbidden, ApiUnavailable
from efrit.kube.client import KubeClient
from tests.unit.controller.virtual_time import elapse

Json = dict[str, Any]
LEADER = "pod-0_a"
RUNS: Json = {"running": {"startedAt": "2026-11-26T10:00:00Z"}}
NOT_FOUND = "The container could not be located when the pod was terminated"
"""What a kubelet says of a container that its runtime does not know any more."""


def ended(message: str | None = LEADER) -> Json:
    return {"terminated": {"exitCode": 137, **({"message": message} if message is not None else {})}}


def pod(state: Json, last: Json | None = None, *, name: str = "pod-0", **status: Any) -> Json:
    container = {"name": "controller", "restartCount": 7, "state": state, "lastState": last or {}}
    return {"metadata": {"name": name}, "status": {"containerStatuses": [container], **status}}


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(pod(ended()), id="ended"),
        pytest.param(pod(ended(f"{LEADER}\n")), id="ended, with a newline"),
        pytest.param(pod({"waiting": {"reason": "CrashLoopBackOff"}}, ended()), id="waits to be restarted"),
        pytest.param(pod(RUNS, ended()), id="restarted"),
    ],
)
def test_a_process_has_ended_whose_words_the_kubelet_has_read(obj: Json) -> None:
    assert has_ended(obj, LEADER)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(pod(RUNS), id="runs"),
        pytest.param(pod(RUNS, ended("pod-0_before")), id="runs, and the one before has ended"),
        pytest.param(pod(ended("pod-0_before")), id="a late report of the one before"),
        pytest.param(pod(ended("")), id="ended without a word"),
        pytest.param(pod(ended(None)), id="ended without a message"),
        pytest.param(pod(ended(NOT_FOUND)), id="not found"),
        pytest.param(pod(ended(f"not {LEADER}")), id="other words"),
        pytest.param(pod(ended(), name="pod-9"), id="the words in another pod"),
        pytest.param(pod(RUNS, phase="Failed", reason="NodeLost"), id="the node is lost"),
        pytest.param(pod(RUNS, conditions=[{"type": "Ready", "status": "False"}]), id="not ready"),
        pytest.param({"metadata": {"name": "pod-0", "deletionTimestamp": "2026-11-26T10:00:00Z"}}, id="deleted"),
        pytest.param({"metadata": {"name": "pod-0"}, "status": {"containerStatuses": None}}, id="no status"),
    ],
)
def test_nothing_else_says_that_a_process_has_ended(obj: Json) -> None:
    assert not has_ended(obj, LEADER)


def test_each_process_has_a_name_of_its_own_that_tells_its_pod() -> None:
    first, second = process_identity("efrit-operator-6d4b"), process_identity("efrit-operator-6d4b")

    assert first != second
    assert pod_of(first) == pod_of(second) == "efrit-operator-6d4b"
    assert pod_of("a-release-before-this") is None


def test_the_words_are_left_where_the_kubelet_reads_them_and_nowhere_else(tmp_path: Path) -> None:
    mounted, missing = tmp_path / "termination-log", tmp_path / "nothing"
    mounted.write_text("what was there before, which is longer")

    leave_identity(str(mounted), LEADER)
    leave_identity(str(missing), LEADER)

    assert mounted.read_text() == LEADER
    assert not missing.exists()


class Pods:
    """An API server with pods, each with what a list says of it and a watch that tests feed."""

    def __init__(self) -> None:
        self.listed: dict[str, Json] = {}
        self.refusal: ApiError | None = None
        self.lists: list[str] = []
        self.events: dict[str, asyncio.Queue[tuple[str, Json] | None]] = {}

    def named(self, resource: object, namespace: str, name: str) -> Pods.Page:
        return Pods.Page(self, name)

    async def follow(
        self,
        resource: object,
        namespace: str,
        version: str,
        *,
        fieldSelector: str,  # noqa: N803
    ) -> AsyncIterator[tuple[str, Json]]:
        queue = self.events.setdefault(fieldSelector.removeprefix("metadata.name="), asyncio.Queue())
        while (event := await queue.get()) is not None:
            yield event

    class Page:
        version = "1"

        def __init__(self, pods: Pods, name: str) -> None:
            self._pods = pods
            self._name = name

        async def __aiter__(self) -> AsyncIterator[Json]:
            self._pods.lists.append(self._name)
            if self._pods.refusal is not None:
                raise self._pods.refusal
            if self._name in self._pods.listed:
                yield self._pods.listed[self._name]


def watcher() -> tuple[Pods, ProcessEnds]:
    pods = Pods()
    return pods, ProcessEnds(cast(KubeClient, pods), "efrit-system")


@pytest.fixture
def made() -> tuple[Pods, ProcessEnds]:
    return watcher()


Feed = Callable[[Pods], object]


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "feed",
    [
        pytest.param(
            lambda pods: pods.events["pod-0"].put_nowait(("MODIFIED", pod(ended()))), id="its container ends"
        ),
        pytest.param(
            lambda pods: pods.events["pod-0"].put_nowait(("DELETED", pod(ended()))),
            id="its pod is deleted after that",
        ),
    ],
)
async def test_the_end_of_the_process_that_was_asked_about_is_seen_at_once(
    made: tuple[Pods, ProcessEnds], feed: Feed
) -> None:
    pods, ends = made
    pods.listed["pod-0"] = pod(RUNS)

    assert not ends.knows_ended(LEADER)
    await elapse(0)
    assert not ends.seen.is_set()
    await elapse(5)
    feed(pods)
    await elapse(0.001)

    assert ends.seen.is_set()
    assert ends.knows_ended(LEADER)
    assert pods.lists == ["pod-0"]


@pytest.mark.virtual_time
async def test_an_end_before_the_first_look_is_seen(made: tuple[Pods, ProcessEnds]) -> None:
    pods, ends = made
    pods.listed["pod-0"] = pod(RUNS, ended())

    ends.knows_ended(LEADER)
    await elapse(0.001)

    assert ends.knows_ended(LEADER)


@pytest.mark.virtual_time
async def test_a_pod_that_is_deleted_while_its_process_may_run_says_nothing(made: tuple[Pods, ProcessEnds]) -> None:
    pods, ends = made
    pods.listed["pod-0"] = pod(RUNS)
    ends.knows_ended(LEADER)
    await elapse(1)

    del pods.listed["pod-0"]
    pods.events["pod-0"].put_nowait(("DELETED", pod(RUNS)))
    pods.events["pod-0"].put_nowait(None)
    await elapse(5)

    assert not ends.seen.is_set()
    assert not ends.knows_ended(LEADER)
    ends.stop()


@pytest.mark.virtual_time
async def test_the_ends_of_processes_in_a_pod_made_anew_under_the_name_say_nothing_about_one_before(
    made: tuple[Pods, ProcessEnds],
) -> None:
    """The pod was deleted by force, and its process may run on a node that is cut off."""
    pods, ends = made
    before, after = process_identity("pod-0"), process_identity("pod-0")
    pods.listed["pod-0"] = pod(RUNS)
    ends.knows_ended(before)
    await elapse(1)

    anew = pod(RUNS, ended(after))
    anew["metadata"]["uid"] = "another"
    pods.listed["pod-0"] = anew
    for event in (("DELETED", pod(RUNS)), ("ADDED", anew), None):
        pods.events["pod-0"].put_nowait(event)
    await elapse(5)

    assert pods.lists == ["pod-0", "pod-0"]
    assert not ends.knows_ended(before)
    ends.stop()


@pytest.mark.virtual_time
async def test_the_pod_of_the_next_holder_is_watched_and_no_other(made: tuple[Pods, ProcessEnds]) -> None:
    pods, ends = made
    pods.listed = {"pod-0": pod(RUNS), "pod-1": pod(RUNS, name="pod-1")}
    ends.knows_ended(LEADER)
    await elapse(1)
    pods.listed["pod-0"] = pod(RUNS, ended())
    pods.events["pod-0"].put_nowait(("MODIFIED", pods.listed["pod-0"]))
    await elapse(1)

    assert not ends.knows_ended("pod-1_b")
    assert not ends.seen.is_set()
    await elapse(1)
    assert pods.lists == ["pod-0", "pod-1"]
    assert not ends.knows_ended("pod-1_b")
    assert not ends.knows_ended("a-release-before-this")
    await elapse(1)

    assert len(pods.lists) == 2
    ends.stop()


@pytest.mark.virtual_time
async def test_a_watch_that_ends_or_an_api_server_that_is_away_is_tried_again(
    made: tuple[Pods, ProcessEnds],
) -> None:
    pods, ends = made
    pods.refusal = ApiUnavailable("503: away")
    ends.knows_ended(LEADER)
    await elapse(3.5)
    assert len(pods.lists) == 4
    pods.refusal = None
    await elapse(1)
    pods.listed["pod-0"] = pod(ended())
    pods.events["pod-0"].put_nowait(None)
    await elapse(2)

    assert ends.knows_ended(LEADER)


@pytest.mark.virtual_time
async def test_without_the_right_to_see_pods_the_lease_runs_out_and_that_is_said_once(
    made: tuple[Pods, ProcessEnds], caplog: pytest.LogCaptureFixture
) -> None:
    pods, ends = made
    pods.refusal = ApiForbidden("403: pods are forbidden")
    caplog.set_level(logging.WARNING)
    for _ in range(10):
        assert not ends.knows_ended(LEADER)
        await elapse(1)

    assert (len(pods.lists), len(caplog.records)) == (1, 1)
    await elapse(5 * REFUSED_PAUSE_SECONDS)
    assert (len(pods.lists), len(caplog.records)) == (6, 1)
    ends.stop()


@pytest.mark.virtual_time
async def test_after_one_refusal_the_end_of_the_leader_is_seen_all_the_same(
    made: tuple[Pods, ProcessEnds],
) -> None:
    pods, ends = made
    pods.refusal = ApiForbidden("403: the API server has just started and knows no roles yet")
    ends.knows_ended(LEADER)
    await elapse(1)
    pods.refusal, pods.listed["pod-0"] = None, pod(ended())
    await elapse(REFUSED_PAUSE_SECONDS)

    assert ends.knows_ended(LEADER)
