"""CLUSTER=kind: the same single node as a container of a Docker engine, by the kind program."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.cluster import paths, programs
from tests.cluster.loading import Loaded
from tests.cluster.progress import ClusterError, run, say

CONFIG = paths.HERE / "kind.yaml"
READY = "180s"


def docker_answers() -> bool:
    """Whether there is a Docker client whose engine answers within a few seconds."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


class KindCluster:
    """A kind cluster named after this clone's identity, so that clones do not share one."""

    kind = "kind"

    def __init__(self) -> None:
        self.name = paths.Layout.of_this_clone().name

    def tools(self) -> None:
        """Make sure of Docker, kind, kubectl and helm."""
        if not docker_answers():
            raise ClusterError("CLUSTER=kind needs a running Docker engine; without one use CLUSTER=bare as root.")
        programs.ensure_go_programs(programs.FOR_KIND)

    def up(self, *, fsync: bool = False, audit_log: bool = True) -> None:
        """Create the cluster unless it runs; its etcd always syncs to disk, and its API server keeps no audit log."""
        self.tools()
        if self._exists() and self._container_runs():
            self._write_kubeconfig()
            say("the cluster is up")
            return
        if self._exists():
            say("the node's container is stopped or gone: making the cluster anew")
            self.down()
        run(self.create_command(), doing=f"creating the kind cluster {self.name} (pulls its node image once)")
        say(f"the cluster is up; KUBECONFIG={paths.kubeconfig()}")

    def create_command(self) -> list[str]:
        """Command line that makes the cluster and writes the kubeconfig."""
        command = [*self._kind("create", "cluster"), "--config", str(CONFIG), "--wait", READY]
        return [*command, "--kubeconfig", str(paths.kubeconfig())]

    def load_command(self, archive: Path) -> list[str]:
        """Command line that brings one docker-archive into the node."""
        return [*self._kind("load", "image-archive"), str(archive)]

    def down(self) -> None:
        """Delete the cluster, its kubeconfig and the note of what was loaded."""
        if docker_answers():
            run([*self._kind("delete", "cluster"), "--kubeconfig", str(paths.kubeconfig())])
        for path in (paths.kubeconfig(), self._record()):
            path.unlink(missing_ok=True)

    def leftovers(self) -> list[str]:
        """Return the node's container and the kubeconfig, if there."""
        leftovers = [f"container {self._node()}"] if docker_answers() and self._exists() else []
        return leftovers + ([f"file {paths.kubeconfig()}"] if paths.kubeconfig().exists() else [])

    def status(self) -> list[str]:
        """Whether it exists and runs."""
        if not docker_answers():
            return ["no Docker engine answers"]
        if not self._exists():
            return ["down"]
        state = "running" if self._container_runs() else "STOPPED"
        return [f"container {self._node()}: {state}", f"kubeconfig: {paths.kubeconfig()}"]

    def load(self, archives: dict[str, Path]) -> None:
        """Load images (name -> docker-archive) that the node does not have in this form."""
        loaded = Loaded(self._record())
        for name, archive in loaded.missing(archives):
            run(self.load_command(archive), doing=f"loading {name}")
            loaded.note(name, archive)

    def _kind(self, *words: str) -> list[str]:
        return [str(programs.program("kind")), *words, "--name", self.name]

    def _node(self) -> str:
        return f"{self.name}-control-plane"

    def _exists(self) -> bool:
        listing = run([programs.program("kind"), "get", "clusters", "--quiet"])
        return self.name in listing.split()

    def _container_runs(self) -> bool:
        command = ["docker", "inspect", "--format", "{{.State.Running}}", self._node()]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.stdout.strip() == "true"

    def _write_kubeconfig(self) -> None:
        if not paths.kubeconfig().exists():
            run([*self._kind("export", "kubeconfig"), "--kubeconfig", str(paths.kubeconfig())])

    def _record(self) -> Path:
        # Keyed by the container: a cluster made anew has nothing loaded.
        key = run(["docker", "inspect", "--format", "{{.Id}}", self._node()]) if self._container_runs() else "none"
        return paths.state() / f"loaded-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"
