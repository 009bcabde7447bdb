"""Commands of the rig: parse, pick the kind of cluster, call it. No knowledge of any kind lives here."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tests.cluster import base_images, images, locks, paths, programs
from tests.cluster.bare import BareCluster
from tests.cluster.existing import ExistingCluster
from tests.cluster.images import Archives
from tests.cluster.kind import KindCluster, docker_answers
from tests.cluster.progress import ClusterError, say

KINDS = ("kind", "bare", "existing")


class Cluster(Protocol):
    """What each kind of cluster can do."""

    kind: str

    def tools(self) -> None:
        """Make sure of every program `up` needs."""

    def up(self, *, fsync: bool = False, audit_log: bool = True) -> None:
        """Have a ready cluster; quick when it is there already."""

    def down(self) -> None:
        """Remove the cluster and everything it left."""

    def leftovers(self) -> list[str]:
        """Return what of the cluster is still there, one line each."""

    def status(self) -> list[str]:
        """Return what is there, one line each."""

    def load(self, archives: Archives) -> None:
        """Bring images into the cluster, those that changed."""


def choose() -> Cluster:
    """Return the kind that CLUSTER names; without it kind where a Docker engine answers, else bare."""
    kind = os.environ.get("CLUSTER") or ("kind" if docker_answers() else "bare")
    if kind not in KINDS:
        raise ClusterError(f"CLUSTER={kind} is none of {', '.join(KINDS)}.")
    clusters: dict[str, type[Cluster]] = {"kind": KindCluster, "bare": BareCluster, "existing": ExistingCluster}
    return clusters[kind]()


def environment() -> dict[str, str]:
    """Variables that make kubectl and helm mean this cluster."""
    path = os.environ.get("PATH", os.defpath)
    folder = str(programs.directory())
    if folder not in path.split(os.pathsep):
        path = f"{folder}{os.pathsep}{path}"
    return {"KUBECONFIG": str(paths.kubeconfig()), "PATH": path}


def main(arguments: Sequence[str]) -> int:
    """Run one command; 0 on success, 1 with one message on failure."""
    # kubectl and helm take their words as they are, options included.
    if arguments and arguments[0] in ("kubectl", "helm"):
        return _guarded(lambda: _become([str(programs.program(arguments[0])), *arguments[1:]]))
    options = _parser().parse_args(arguments)
    return _guarded(lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.cluster",
        description="One real Kubernetes node for tests. "
        "CLUSTER=kind|bare|existing; kind where Docker answers, else bare.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    tools = commands.add_parser("tools", help="install and build the programs the cluster needs")
    tools.add_argument("--check", action="store_true", help="those of `make check` instead")
    tools.add_argument("--test", action="store_true", help="those of the tests without a cluster instead")
    tools.add_argument("--metrics", action="store_true", help="those of the test of autoscalers instead")
    built = commands.add_parser("images", help="build all images; does nothing for what did not change")
    built.add_argument("--refresh", action="store_true", help="with today's packages in the base images")
    built.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(images.names())}; all by default")
    bases = commands.add_parser("base-images", help="fail unless each Dockerfile names its bases by digest")
    bases.add_argument(
        "--pin", action="store_true", help="write the digest that each tag has now into the Dockerfiles"
    )
    bases.add_argument("--verify", action="store_true", help="fail as well if a registry does not have the digest")
    up = commands.add_parser("up", help="have a ready cluster with the images built so far")
    up.add_argument("--fsync", action="store_true", help="let etcd sync to disk, for measurements")
    up.add_argument("--no-audit", action="store_true", help="keep no audit log, to measure what it takes (bare)")
    down = commands.add_parser("down", help="remove the cluster and everything it left")
    down.add_argument("--check", action="store_true", help="remove nothing: list what is left, fail if anything is")
    commands.add_parser("status", help="what runs, where its logs are")
    commands.add_parser("load", help="bring changed images into the cluster")
    commands.add_parser("env", help='print export lines for a shell: eval "$(python3 -m tests.cluster env)"')
    commands.add_parser("shell", help="a shell with KUBECONFIG and PATH set")
    commands.add_parser("kubectl", help="kubectl on this cluster: kubectl ARGUMENTS…")
    commands.add_parser("helm", help="helm on this cluster: helm ARGUMENTS…")
    return parser


def _alone() -> AbstractContextManager[None]:
    """Hold the clone's lock: two commands that change the cluster must not meet. It ends with the process."""
    return locks.exclusive_lock(paths.state() / "lock", "another command is at work on this cluster: waiting for it")


def _run(options: argparse.Namespace) -> int:
    if options.command == "images":
        # They change no cluster, and have a lock of their own: programs are built meanwhile.
        return _change(options)
    if options.command in ("tools", "up", "down", "load"):
        with _alone():
            return _change(options)
    match options.command:
        case "base-images":
            bases = base_images.pin(paths.REPOSITORY) if options.pin else base_images.check(paths.REPOSITORY)
            for base in bases:
                if options.verify:
                    base_images.verify(base.reference)
                print(base.reference)
        case "status":
            cluster = choose()
            print("\n".join([f"cluster: {cluster.kind}", *cluster.status()]))
        case "env":
            for name, value in environment().items():
                print(f"export {name}={shlex.quote(value)}")
        case "shell":
            return _become([os.environ.get("SHELL") or shutil.which("bash") or "/bin/sh"])
    return 0


def _change(options: argparse.Namespace) -> int:
    match options.command:
        case "tools" if options.check:
            programs.ensure_go_programs(programs.FOR_CHECK)
            programs.helm_docs()
            programs.announce()
        case "tools" if options.test:
            programs.ensure_debian_packages(programs.DEBIAN_TEST)
            programs.ensure_go_programs((*programs.FOR_CONTROL_PLANE, *programs.FOR_CHECK, "kind"))
            programs.crane()
            programs.helm_docs()
            programs.announce()
        case "tools" if options.metrics:
            programs.metrics_programs()
        case "tools":
            choose().tools()
            programs.announce()
        case "images":
            for name, archive in images.build(options.names, refresh=options.refresh).items():
                print(f"{name}\t{archive}")
        case "up":
            cluster = choose()
            cluster.up(fsync=options.fsync, audit_log=not options.no_audit)
            cluster.load(images.built())
        case "down" if options.check:
            return _report_leftovers(choose())
        case "down":
            cluster = choose()
            cluster.down()
            return _report_leftovers(cluster)
        case "load":
            choose().load(images.built())
    return 0


def _report_leftovers(cluster: Cluster) -> int:
    leftovers = cluster.leftovers()
    for line in leftovers:
        print(line)
    if leftovers:
        say(f"{len(leftovers)} things of the cluster are left")
        return 1
    say("nothing of the cluster is left")
    return 0


def _become(command: list[str]) -> int:
    os.execve(command[0], command, {**os.environ, **environment()})  # noqa: S606 -- becoming it is the point


def _guarded(action: Callable[[], int]) -> int:
    try:
        return action()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on, or `down` to clean up", file=sys.stderr)
        return 130
