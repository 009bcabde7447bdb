"""The bare cluster: one node made of ordinary processes in a network namespace of its own.

`up` looks at what is there and starts what is not; a cluster of other versions, or one with a broken network,
is taken down first. teardown.py knows how to remove everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.cluster import addons, audit, forward, network, node, node_images, paths, programs, teardown
from tests.cluster.control_plane import ControlPlane, Ports
from tests.cluster.loading import Loaded
from tests.cluster.processes import Daemon
from tests.cluster.progress import ClusterError, run, say, wait_until

# A running cluster made by other code than these modules hold now is made anew.
RECIPE = (
    "addons.py",
    "audit.py",
    "certificates.py",
    "control_plane.py",
    "network.py",
    "node.py",
    "node_images.py",
    "pause.c",
)
# Inside the namespace no other program can hold these.
PORTS = Ports(api=6443, etcd=2379, peer=2380)


class BareCluster:
    """CLUSTER=bare."""

    kind = "bare"

    def __init__(self, layout: paths.Layout | None = None) -> None:
        self.layout = layout or paths.Layout.of_this_clone()
        self._marker = self.layout.data / "cluster.json"

    def tools(self) -> None:
        """Make sure of every program `up` needs."""
        if sys.platform != "linux" or os.geteuid() != 0:
            raise ClusterError("A bare cluster needs Linux and root: use sudo, or start Docker and use CLUSTER=kind.")
        programs.ensure_debian_packages(programs.DEBIAN_BARE)
        programs.ensure_go_programs(programs.FOR_BARE)

    def up(self, *, fsync: bool = False, audit_log: bool = True) -> None:
        """Have a ready cluster; quick when it is there already."""
        self.tools()
        programs_and_recipe = {"programs": programs.directory().name, "recipe": _recipe()}
        desired: dict[str, object] = {**programs_and_recipe, "fsync": fsync, "audit_log": audit_log}
        recorded = self._known()
        if serves(recorded, desired) and network.exists(self.layout):
            if not self._repair(recorded):
                say("the cluster is up")
                return
        else:
            if teardown.leftovers(self.layout):
                say("removing a former cluster (of other versions or options, or incomplete)")
                teardown.remove(self.layout.second)
                teardown.remove(self.layout)
            self._create(desired, audit_log=audit_log)
        self._wait_ready()

    def down(self) -> None:
        """Remove the cluster and all it left on the machine."""
        teardown.remove(self.layout.second)
        teardown.remove(self.layout)
        paths.kubeconfig().unlink(missing_ok=True)

    def leftovers(self) -> list[str]:
        """Return what of the cluster is still on the machine."""
        leftovers = [*teardown.leftovers(self.layout.second), *teardown.leftovers(self.layout)]
        return leftovers + ([f"file {paths.kubeconfig()}"] if paths.kubeconfig().exists() else [])

    def status(self) -> list[str]:
        """One line per part; raises nothing when parts are missing."""
        recorded = self._known()
        if not recorded:
            return ["down"]
        plane = self._plane(fsync=bool(recorded.get("fsync")))
        lines = [
            f"{daemon.name}: {f'pid {daemon.pid()}' if daemon.pid() else 'DEAD'}" for daemon in self._daemons(plane)
        ]
        lines.append(f"node: {'ready' if self._node_ready(plane) else 'NOT READY'}")
        lines += [
            f"{name}: {'available' if self._available(plane, where, name) else 'NOT AVAILABLE'}"
            for where, name in addons.DEPLOYMENTS
        ]
        return [*lines, f"kubeconfig: {paths.kubeconfig()}", f"logs: {self.layout.data / 'logs'}"]

    def load(self, archives: dict[str, Path]) -> None:
        """Import images (name -> docker-archive) that the node does not have in this form."""
        loaded = Loaded(self.layout.data / "loaded.json")
        for name, archive in loaded.missing(archives):
            importing = ["ctr", "--address", str(self.layout.containerd_socket), "--namespace", "k8s.io"]
            run([*importing, "images", "import", archive], doing=f"importing {name}")
            loaded.note(name, archive)

    # For tests that break the cluster

    def daemon(self, name: str) -> Daemon:
        """Return one of its programs, to be stopped, frozen and started; KeyError where none has this name."""
        return {daemon.name: daemon for daemon in self._daemons(self.inner_plane())}[name]

    def reached(self) -> ControlPlane:
        """Return the control plane as this machine reaches it: for its URL and certificates, not to be started."""
        port = self._port()
        if port is None:
            raise ClusterError("The bare cluster is not up; run `make cluster`.")
        return ControlPlane(self.layout.data, ports=replace(PORTS, api=port), kubeconfig=paths.kubeconfig())

    def inner_plane(self) -> ControlPlane:
        """Return the control plane as its node reaches it."""
        return self._plane(fsync=bool(self._known().get("fsync")))

    def start_dead(self) -> list[str]:
        """Start the programs that do not run, and return their names."""
        recorded = self._known()
        dead = [daemon for daemon in self._daemons(self.inner_plane()) if daemon.pid() is None]
        for daemon in dead:
            if daemon.name == "kubelet":
                self._wait_containerd()  # a kubelet without a runtime ends at once
            if daemon.name == "forward":
                forward.start(self.layout, self.inner_plane().host, PORTS.api, listen_on=int(recorded["port"]))
            else:
                daemon.start()
            daemon.favour()
        return [daemon.name for daemon in dead]

    def ready(self) -> bool:
        """Whether the API server, the node and the add-ons answer."""
        return self._ready(self.inner_plane())

    def made_with(self) -> dict[str, Any]:
        """Return the options of the cluster that is there, `fsync` and `audit_log`; nothing where there is none."""
        return {"audit_log": True, **known} if (known := self._known()) else {}

    def _known(self) -> dict[str, Any]:
        try:
            recorded = json.loads(self._marker.read_text())
        except (OSError, ValueError):
            return {}
        return recorded if isinstance(recorded, dict) else {}

    def _plane(self, *, fsync: bool) -> ControlPlane:
        return ControlPlane(
            self.layout.data,
            fsync=fsync,
            ports=PORTS,
            node_ip=network.NODE_IP,
            inside=self.layout.inside(),
            flags=audit.flags(self.layout),
        )

    def _daemons(self, plane: ControlPlane) -> list[Daemon]:
        forwarder = forward.daemon(self.layout, 0, plane.host, PORTS.api)
        return [
            plane.etcd,
            plane.apiserver,
            forwarder,
            node.containerd(self.layout),
            *node.controllers(self.layout, plane),
            *node.agents(self.layout),
        ]

    def _create(self, desired: dict[str, object], *, audit_log: bool) -> None:
        layout = self.layout
        say("creating the cluster: certificates, network, control plane, node")
        layout.data.mkdir(parents=True)
        layout.data.chmod(0o711)
        if audit_log:
            audit.write_policy(layout)
        plane = self._plane(fsync=bool(desired["fsync"]))
        network.create(layout)
        plane.prepare()
        node.write_files(layout, plane)
        teardown.remember_sysctls(layout)
        plane.start(wait=False)
        port = forward.start(layout, plane.host, PORTS.api, listen_on=None)
        # Unpacking the node's images and starting the API server keep one core busy each.
        node.containerd(layout).start()
        self._wait_containerd()
        self.load(node_images.archives())
        plane.wait_ready("127.0.0.1", port)
        say("the API server is ready")
        self._write_kubeconfig(plane, port)
        node.make_cgroup(layout)
        for daemon in (*node.controllers(layout, plane), *node.agents(layout)):
            daemon.start()
        for daemon in self._daemons(plane):
            daemon.favour()
        self._apply_addons()
        self._marker.write_text(json.dumps({**desired, "port": port}))

    def _repair(self, recorded: dict[str, Any]) -> bool:
        """Start what does not run; False if nothing was amiss."""
        plane, port = self.inner_plane(), int(recorded["port"])
        started = self.start_dead()
        if not started and self._ready(plane) and paths.kubeconfig().exists():
            return False
        for name in started:
            say(f"{name} was not running: started it")
        self._wait_containerd()
        self.load(node_images.archives())
        plane.wait_ready("127.0.0.1", port)
        self._write_kubeconfig(plane, port)
        self._apply_addons()
        return True

    def _write_kubeconfig(self, plane: ControlPlane, port: int) -> None:
        plane.authority.write_kubeconfig(paths.kubeconfig(), "admin", f"https://127.0.0.1:{port}")

    def _apply_addons(self) -> None:
        apply = ["--kubeconfig", str(paths.kubeconfig()), "apply", "--server-side", "--force-conflicts", "-f", "-"]
        run([programs.program("kubectl"), *apply], text=addons.manifests(self.layout))

    def _wait_containerd(self) -> None:
        daemon = node.containerd(self.layout)

        def answers() -> bool:
            if daemon.pid() is None:
                raise ClusterError(f"containerd ended; its log {daemon.log} ends:\n{daemon.log_tail()}")
            try:
                run(["ctr", "--address", self.layout.containerd_socket, "version"])
            except ClusterError:
                return False
            return True

        wait_until(answers, "an answer from containerd", hint=f"See {daemon.log}.")

    def _wait_ready(self) -> None:
        plane = self.inner_plane()
        logs = f"See {self.layout.data / 'logs'}."

        def alive() -> None:
            for daemon in self._daemons(plane):
                if daemon.pid() is None:
                    raise ClusterError(f"{daemon.name} ended; its log {daemon.log} ends:\n{daemon.log_tail()}")

        def node_ready() -> bool:
            alive()
            return self._node_ready(plane)

        wait_until(node_ready, "a ready node", hint=logs)
        say("the node is ready")
        wait_until(lambda: self._ready(plane), "DNS and storage", hint=logs)
        alive()
        say(f"the cluster is up; KUBECONFIG={paths.kubeconfig()}")

    def _ready(self, plane: ControlPlane) -> bool:
        return self._node_ready(plane) and all(
            self._available(plane, *deployment) for deployment in addons.DEPLOYMENTS
        )

    def _get(self, plane: ControlPlane, path: str) -> Any | None:
        port = self._port()
        return plane.request(path, host="127.0.0.1", port=port) if port else None

    def _port(self) -> int | None:
        port = self._known().get("port")
        return port if isinstance(port, int) else None

    def _node_ready(self, plane: ControlPlane) -> bool:
        # The kubelet itself is asked too: what the API server knows of it stays "Ready" for a while after its end.
        node_object = self._get(plane, f"/api/v1/nodes/{node.NODE_NAME}")
        answer = self._get(plane, f"/api/v1/nodes/{node.NODE_NAME}/proxy/healthz")
        return (
            node_object is not None
            and answer == "ok"
            and any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node_object["status"].get("conditions", ())
            )
        )

    def _available(self, plane: ControlPlane, namespace: str, name: str) -> bool:
        deployment = self._get(plane, f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        return deployment is not None and int(deployment["status"].get("availableReplicas", 0)) > 0


def serves(recorded: dict[str, Any], desired: dict[str, object]) -> bool:
    """Whether a recorded cluster is as desired: one that syncs to disk is welcome where that was not asked for."""
    return {"audit_log": True, **recorded}.items() >= {
        **desired,
        "fsync": desired["fsync"] or recorded.get("fsync"),
    }.items()


def _recipe() -> str:
    return hashlib.sha256(b"\0".join((paths.HERE / name).read_bytes() for name in RECIPE)).hexdigest()[:16]
