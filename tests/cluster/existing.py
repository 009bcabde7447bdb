"""CLUSTER=existing: somebody's cluster, named by KUBECONFIG. The rig creates and removes nothing there."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from tests.cluster import paths, programs
from tests.cluster.progress import ClusterError, run, say

# How images get there is the owner's business: a command with {archive} and {name} to fill in, for example
# `skopeo copy docker-archive:{archive} docker://registry.example.org/{name}`.
LOAD_COMMAND = "EFRIT_LOAD_COMMAND"


class ExistingCluster:
    """A cluster that is already there."""

    kind = "existing"

    def tools(self) -> None:
        """Make sure of kubectl and helm."""
        programs.ensure_go_programs(programs.FOR_EXISTING)

    def up(self, *, fsync: bool = False, audit_log: bool = True) -> None:
        """Check that the cluster answers and keep a copy of its kubeconfig where everything looks for it."""
        if fsync:
            raise ClusterError("An existing cluster's etcd is its owner's; --fsync is for CLUSTER=bare.")
        if not audit_log:
            raise ClusterError("An existing cluster's audit log is its owner's; --no-audit is for CLUSTER=bare.")
        self.tools()
        source = Path(os.environ.get("KUBECONFIG", Path.home() / ".kube/config"))
        if not source.is_file():
            raise ClusterError("CLUSTER=existing needs KUBECONFIG to name one readable kubeconfig file.")
        if source.resolve() != paths.kubeconfig().resolve():
            paths.kubeconfig().parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, paths.kubeconfig())
            paths.kubeconfig().chmod(0o600)
        run([programs.program("kubectl"), "--kubeconfig", paths.kubeconfig(), "get", "--raw", "/readyz"])
        say(f"the cluster answers; KUBECONFIG={paths.kubeconfig()}")

    def down(self) -> None:
        """Forget the cluster: only the copied kubeconfig goes."""
        paths.kubeconfig().unlink(missing_ok=True)

    def leftovers(self) -> list[str]:
        """Return the copied kubeconfig, if there."""
        return [f"file {paths.kubeconfig()}"] if paths.kubeconfig().exists() else []

    def status(self) -> list[str]:
        """Return the nodes as kubectl shows them."""
        if not paths.kubeconfig().exists():
            return ["unknown: run `up` with KUBECONFIG set"]
        command = ["--kubeconfig", str(paths.kubeconfig()), "get", "nodes", "-o", "wide"]
        return run([programs.program("kubectl"), *command]).splitlines()

    def load(self, archives: dict[str, Path]) -> None:
        """Run the owner's load command for each image, or say what to do."""
        template = os.environ.get(LOAD_COMMAND)
        if not template:
            if archives:
                say(f"images are not loaded: set {LOAD_COMMAND}, e.g. 'skopeo copy docker-archive:{{archive}} …'")
            return
        for name, archive in sorted(archives.items()):
            words = [word.format(archive=archive, name=name) for word in shlex.split(template)]
            run(words, doing=f"loading {name}")
