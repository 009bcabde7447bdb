"""A run on the light tier: the controller's processes, and a node whose pods are processes.

The nemesis is nemesis.py's, what users do is client.py's; run.py decides what happens when.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from tests.support.custom_resources import new_namespace
from tests.support.faults.api_proxy.proxy import Proxy
from tests.support.faults.availability import LeaseRecorder, ListProbe, merge_spans, silent_spans
from tests.support.faults.base_run import FaultRun
from tests.support.faults.file_shim.points import FileShims
from tests.support.faults.history import REMOVED, Execution, ObjectVersion
from tests.support.faults.large_results import FullVolume, refused_secrets
from tests.support.faults.light.cluster import LightCluster
from tests.support.faults.light.controllers import Controller, is_emacs
from tests.support.faults.light.nemesis import LightNemesis
from tests.support.faults.pool_state import pool_unsettled
from tests.support.faults.pool_workload import PoolSpec
from tests.support.faults.recorder import ObjectRecorder, RequestRecorder
from tests.support.faults.schedule import Op, Schedule, Theme
from tests.support.faults.workload import COUNTER
from tests.support.kube import Json, until
from tests.support.model_access import secret, with_model
from tests.support.pod import Pod
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

GRACE_SECONDS = 4
"""How long a request waits for an instance that does not exist."""
SETTINGS = {"EFRIT_SWEEP_SECONDS": "2", "EFRIT_TARGET_GRACE_SECONDS": str(GRACE_SECONDS)}
TWO_LEADERS = {"EFRIT_LEASE_SECONDS": "3"}
RELAUNCH_SECONDS = 0.5
KEY = "key"
"""The Secret with the key of the model."""


class LightRun(FaultRun):
    """One run on processes of this machine."""

    # What an admission policy refused a moment after it was deleted is tried again after half a minute.
    tidy_seconds = TIMEOUT
    nemesis: LightNemesis
    cluster: LightCluster

    def __init__(self, cluster: LightCluster, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.cluster = cluster
        self._counters: dict[Path, tuple[int, list[Execution]]] = {}
        self.proxy: Proxy | None = None
        self.shims: FileShims | None = None
        self._objects: list[ObjectRecorder] = []
        self._leases: LeaseRecorder | None = None
        self._probe: ListProbe | None = None
        self.nemesis = LightNemesis(self)

    # Beginning and end

    def open(self) -> None:
        """Bring up what exists when the run begins, then start the clock."""
        schedule = self.schedule
        self.cluster.repair()
        self.cluster.collect_garbage(schedule.theme is Theme.NAMESPACE)
        other = new_namespace(self.cluster.kube, "o") if schedule.theme is Theme.TENANTS else None
        others = (other,) if other else ()
        plane, kube, lisp = self.cluster.plane, self.cluster.kube, self.cluster.lisp
        self.site = Site(plane, kube, Path("/dev/null"), lisp, others=others, usual_lease=True)
        self.namespace = self.site.namespace
        self.nemesis.administration.open(other)
        if schedule.pool is not None and schedule.pool.affinity:
            secret(self.cluster.kube, self.namespace, KEY)
        self.recorder = RequestRecorder(self.cluster.plane, self.namespace, self.clock)
        self.recorder.start()
        for plural in ("efritinstances", "statefulsets", "efritplans", "efritpools", "efritclaims"):
            self._objects.append(ObjectRecorder(self.cluster.plane, plural, self.namespace, self.clock))
            self._objects[-1].start()
        self._leases = LeaseRecorder(self.cluster.plane, "leases", self.namespace, self.clock)
        self._leases.start()
        self._probe = ListProbe(self.cluster.kube, self.namespace, self.clock)
        self._probe.start()
        server = None
        if any(step.op is Op.CALL for step in schedule.steps):
            self.proxy = Proxy(self.cluster.plane)
            self.proxy.start()
            self.proxy.kill_controller = self._kill_controller
            server = self.proxy.url
        if schedule.theme in (Theme.FILES, Theme.CLOCKS, Theme.VOLUMES):
            self.shims = FileShims(self.site.directory)
            self.site.node.environment = self.shims.for_pod
        env = {**SETTINGS, **(TWO_LEADERS if schedule.controllers > 1 else {})}
        self.controllers = [
            Controller(self.site.operator(f"operator-{number}", server=server))
            for number in range(schedule.controllers)
        ]
        for controller in self.controllers:
            loaded = self.shims.for_controller(controller.operator.name) if self.shims else {}
            controller.operator.launch(**env, **loaded)
        if schedule.warm:
            first = schedule.instances[0]
            self.create_instance(first)
            self.site.until_condition(first.name, "Ready", status="True")
            if schedule.pool is not None:
                self.create_pool(schedule.pool)
                until(
                    lambda: not pool_unsettled(self.cluster.kube, self.namespace, schedule.pool) or None,
                    "the pool is not at rest",
                )
        if self.nemesis.administration.tenant is not None:
            self.nemesis.administration.tenant.begin()
        self.clock.start()

    def close(self) -> None:
        """Put everything away, whether or not `open` came to its end."""
        for controller in getattr(self, "controllers", ()):
            controller.operator.close()
        if self.proxy is not None:
            self.proxy.close()
        if hasattr(self, "recorder"):
            self.recorder.close()
        for watcher in (*self._objects, self._leases, self._probe):
            if watcher is not None:
                watcher.close()
        if hasattr(self, "site"):
            self.cluster.repair()
            self.nemesis.administration.close()
            self.site.close()

    def keep_logs(self, directory: Path) -> None:
        """Copy what every process has logged."""
        for path in self.site.directory.rglob("*.log"):
            target = directory / "-".join(path.relative_to(self.site.directory).parts)
            shutil.copy2(path, target)
        for daemon in (self.cluster.plane.etcd, self.cluster.plane.apiserver):
            (directory / f"{daemon.name}.log").write_text(daemon.log_tail(2000))

    def tick(self) -> None:
        """Restart controllers that ended, as the kubelet does, and note the hits of armed faults."""
        for controller in self.controllers:
            process = controller.operator.process
            if controller.frozen or process.status is None:
                continue
            if controller.relaunch_at is None:
                last_words = next((line for line in reversed(process.tail().splitlines()) if "CRITICAL" in line), "")
                ended = f"{controller.operator.name} ended by itself with status {process.status}: {last_words}"
                self.note("controller", ended)
                self.disturbances.append((self.clock(), self.clock() + RELAUNCH_SECONDS))
                controller.relaunch_at = self.clock() + RELAUNCH_SECONDS
            if self.clock() >= controller.relaunch_at:
                controller.relaunch_at = None
                controller.operator.launch()
                self.note("controller", f"{controller.operator.name} is started again")
        self.close_losses()
        self.nemesis.note_hits()

    def _kill_controller(self) -> None:
        controller = self.controllers[0]
        controller.relaunch_at = self.clock() + 0.1
        controller.operator.kill()

    # What can be observed

    def pods(self) -> list[Pod]:
        """Return every pod there ever was."""
        return list(self.site.node.made)

    def running_pod(self, instance: str) -> Pod | None:
        """Return the running pod of an instance, None while there is none."""
        return self.site.node.find(instance)

    def serving(self, instance: str) -> str:
        """Return which pod's Emacs serves an instance, empty while none does."""
        pod = self.running_pod(instance)
        pid = pod.emacs_pid() if pod else None
        return pod.uid if pod and pid and is_emacs(pid) else ""

    def workspace_file(self, instance: str, path: str) -> Path:
        """Return the path itself: every Emacs here sees the files of this machine."""
        del instance
        return Path(path)

    def executions(self) -> tuple[Execution, ...]:
        """Return the lines of every counter file."""
        counter = next((request.counter for request in self.schedule.requests), COUNTER)
        for path, instance in {pod.workspace / counter: pod.instance for pod in self.pods()}.items():
            with contextlib.suppress(OSError):
                size = path.stat().st_size
                if self._counters.get(path, (-1, []))[0] != size:
                    lines = path.read_text().splitlines()
                    self._counters[path] = size, [self._execution(instance, line) for line in lines]
        return tuple(line for _, lines in self._counters.values() for line in lines)

    def other_tenant_open(self) -> tuple[str, ...]:
        """Return the requests of the other tenant that are not final."""
        tenant = self.nemesis.administration.tenant
        return tenant.open() if tenant is not None else ()

    @property
    def unavailable_spans(self) -> tuple[tuple[float, float], ...]:
        """Return the spans so far in which no controller renewed its Lease, or the API server answered no lists."""
        if self._leases is None or self._probe is None:
            return ()
        now = self.clock()
        return merge_spans([*silent_spans(self._leases.renewals, now), *silent_spans(self._probe.answers, now)])

    @property
    def objects(self) -> tuple[ObjectVersion, ...]:
        """Return what was seen of instances, StatefulSets and plans."""
        return tuple(version for recorder in self._objects for version in recorder.versions)

    def member_spec(self, pool: PoolSpec) -> Json:
        """Return the model that members have where there are sessions."""
        return {"model": with_model(self.cluster.model(), KEY)} if pool.affinity else {}

    def members(self) -> tuple[str, ...]:
        """Return the names of the members that the pool has now, the oldest first."""
        assert self.schedule.pool is not None
        owner = f"EfritPool/{self.schedule.pool.name}"
        return tuple(version.name for version in self._latest_instances() if version.owner == owner)

    def is_gone(self, instance: str) -> bool:
        """Return whether an instance was deleted."""
        seen = any(version.kind == "efritinstances" and version.name == instance for version in self.objects)
        return seen and instance not in {version.name for version in self._latest_instances()}

    def _latest_instances(self) -> list[ObjectVersion]:
        latest = {version.uid: version for version in self.objects if version.kind == "efritinstances"}
        return [version for version in latest.values() if version.event not in REMOVED]

    def refused_secrets(self) -> frozenset[str]:
        """Return the names of the Secrets whose creation the API server has refused."""
        return refused_secrets(self.cluster.audit_log, self.namespace)

    @property
    def full_volumes(self) -> tuple[FullVolume, ...]:
        """Return which volumes were full or failed, and when."""
        return self.nemesis.administration.full_volumes
