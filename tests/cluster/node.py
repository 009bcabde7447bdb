"""What makes the machine a node: containerd, kubelet, kube-proxy and the CNI, as files and command lines.

Pure but for `write_files` and `make_cgroup`; bare.py decides when each is started.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import NamedTuple

from tests.cluster import programs
from tests.cluster.control_plane import SERVICE_CIDR, ControlPlane
from tests.cluster.network import NODE_IP, NODE_POD_CIDR, POD_CIDR, SECOND_IP, SECOND_POD_CIDR
from tests.cluster.paths import Layout
from tests.cluster.processes import Daemon

NODE_NAME = "node1"
DNS_IP = "10.96.0.10"
PAUSE_IMAGE = "localhost/efrit/pause:dev"
MAX_PODS = 240
CGROUPS = Path("/sys/fs/cgroup")
POD_SHARES, POD_WEIGHT = 9 * 1024, 9 * 100
"""Of the processors for all pods, on cgroup v1 and v2: as a daemon that is favoured."""

# Client-side throttling is for clusters of many: here its defaults only delay the start and every burst of pods.
UNTHROTTLED = ("--kube-api-qps=200", "--kube-api-burst=400")

# Outside of tests 15 s and 5 minutes.
AUTOSCALING = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=5s",
)


class Node(NamedTuple):
    """What tells a node from another."""

    name: str
    ip: str
    pod_cidr: str
    kubelet: str
    """Name of its kubelet's certificate."""
    taints: tuple[dict[str, str], ...] = ()


FIRST = Node(NODE_NAME, NODE_IP, NODE_POD_CIDR, "kubelet")
# Only what asks for it runs there.
SECOND = Node("node2", SECOND_IP, SECOND_POD_CIDR, "kubelet-node2", ({"key": "second", "effect": "NoSchedule"},))

# Holder of each client certificate beside the administrator and kubelets: name -> subject the bootstrap RBAC knows.
IDENTITIES = {
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
}


def containerd(layout: Layout) -> Daemon:
    """Return the container runtime, with root and state of its own."""
    command = [*layout.inside(), "containerd", "--config", str(layout.data / "containerd.toml")]
    return Daemon("containerd", tuple(command), layout.data)


def controllers(layout: Layout, plane: ControlPlane) -> list[Daemon]:
    """Return controller manager and scheduler; there is one of each, so they need no election."""
    pki, data, inside = plane.authority, layout.data, layout.inside()
    manager = [
        *inside,
        str(programs.program("kube-controller-manager")),
        f"--kubeconfig={data / 'controller-manager.kubeconfig'}",
        "--leader-elect=false",
        f"--service-account-private-key-file={pki.key('sa')}",
        f"--root-ca-file={pki.ca}",
        "--use-service-account-credentials",
        f"--cluster-signing-cert-file={pki.ca}",
        f"--cluster-signing-key-file={pki.key('ca')}",
        "--allocate-node-cidrs",
        f"--cluster-cidr={POD_CIDR}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--cert-dir={pki.directory}",
        f"--flex-volume-plugin-dir={data / 'volume-plugins'}",
        *UNTHROTTLED,
        *AUTOSCALING,
        "--profiling=false",
    ]
    scheduler = [
        *inside,
        str(programs.program("kube-scheduler")),
        f"--kubeconfig={data / 'scheduler.kubeconfig'}",
        *UNTHROTTLED,
        "--leader-elect=false",
        f"--cert-dir={pki.directory}",
        "--profiling=false",
    ]
    return [
        Daemon("kube-controller-manager", tuple(manager), data),
        Daemon("kube-scheduler", tuple(scheduler), data),
    ]


def agents(layout: Layout, node: Node = FIRST) -> list[Daemon]:
    """kubelet and kube-proxy."""
    data, inside = layout.data, layout.inside()
    kubelet = [
        *inside,
        str(programs.program("kubelet")),
        f"--kubeconfig={data / 'kubelet.kubeconfig'}",
        f"--config={data / 'kubelet.json'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.ip}",
        f"--root-dir={data / 'kubelet'}",
    ]
    proxy = [*inside, str(programs.program("kube-proxy")), f"--config={data / 'kube-proxy.json'}"]
    return [Daemon("kubelet", tuple(kubelet), data), Daemon("kube-proxy", tuple(proxy), data)]


def write_files(layout: Layout, plane: ControlPlane) -> None:
    """Write configuration and kubeconfigs of everything that runs on the first node."""
    for name, subject in IDENTITIES.items():
        plane.authority.issue(name, subject, [f"DNS:{NODE_NAME}", f"IP:{NODE_IP}"])
        plane.authority.write_kubeconfig(layout.data / f"{name}.kubeconfig", name, plane.url)
    write_node_files(layout, plane)


def write_node_files(layout: Layout, plane: ControlPlane, node: Node = FIRST) -> None:
    """Write what containerd, kubelet and kube-proxy of a node read; kube-proxy has its certificate already."""
    data = layout.data
    for folder in (data / "cni", layout.volumes, data / "kubelet", layout.run):
        folder.mkdir(parents=True, exist_ok=True)
    layout.volumes.chmod(0o755)
    subject = f"/O=system:nodes/CN=system:node:{node.name}"
    plane.authority.issue(node.kubelet, subject, [f"DNS:{node.name}", f"IP:{node.ip}"])
    plane.authority.write_kubeconfig(data / "kubelet.kubeconfig", node.kubelet, plane.url)
    plane.authority.write_kubeconfig(data / "kube-proxy.kubeconfig", "kube-proxy", plane.url)
    (data / "containerd.toml").write_text(containerd_config(layout))
    (data / "cni" / "10-efrit.conflist").write_text(json.dumps(cni_config(layout, node), indent=1))
    (data / "kubelet.json").write_text(json.dumps(kubelet_config(layout, plane, node), indent=1))
    (data / "kube-proxy.json").write_text(json.dumps(proxy_config(layout, node), indent=1))
    # Names outside the cluster do not resolve: the node has no way out.
    (data / "resolv.conf").write_text(f"nameserver {DNS_IP}\n")


def containerd_config(layout: Layout) -> str:
    """Version 2 of the format, which containerd 1.6 to 2.x read."""
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE (in a container, say) every sandbox would fail with
    # "can't get final child's PID from pipe: EOF". netns_mounts_under_state_dir keeps the pods' network
    # namespaces where `down` finds them.
    return f"""\
version = 2
root = "{layout.data / "containerd"}"
state = "{layout.run / "containerd"}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "{layout.containerd_socket}"

[debug]
  level = "warn"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{layout.data / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "{layout.run / "runc"}"
"""


def cni_config(layout: Layout, node: Node) -> dict[str, object]:
    """Return a bridge with masquerading and host ports; it enforces no NetworkPolicy (kind's network does)."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(layout.run / "ipam"),
            "ranges": [[{"subnet": node.pod_cidr}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": layout.name, "plugins": [bridge, portmap]}


def kubelet_config(layout: Layout, plane: ControlPlane, node: Node) -> dict[str, object]:
    """KubeletConfiguration: works on cgroup v1 and v2, on machines with swap and with little disk left."""
    pki = plane.authority
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "x509": {"clientCAFile": str(pki.ca)},
            "webhook": {"enabled": True},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki.certificate(node.kubelet)),
        "tlsPrivateKeyFile": str(pki.key(node.kubelet)),
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.name}",
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "clusterDNS": [DNS_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(layout.data / "resolv.conf"),
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
        # Imported images cannot be pulled again: never collect them.
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": str(layout.data / "podlogs"),
        "volumePluginDir": str(layout.data / "volume-plugins"),
        "maxPods": MAX_PODS,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
        "serializeImagePulls": False,
        "enableProfilingHandler": False,
        "healthzBindAddress": "127.0.0.1",
        "registerWithTaints": list(node.taints),
    }


def proxy_config(layout: Layout, node: Node) -> dict[str, object]:
    """KubeProxyConfiguration; conntrack limits are the whole machine's and stay as they are."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(layout.data / "kube-proxy.kubeconfig")},
        "mode": "iptables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": node.name,
        "conntrack": {"maxPerCore": 0},
    }


def make_cgroup(layout: Layout) -> None:
    """Make the cgroup all pods live under, in every hierarchy, so that `down` finds all of them."""
    if (CGROUPS / "cgroup.controllers").exists():
        for controller in (CGROUPS / "cgroup.controllers").read_text().split():
            with contextlib.suppress(OSError):
                (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
    for folder in cgroup_folders(layout):
        folder.mkdir(exist_ok=True)
        _inherit_cpuset(folder)
        # Else all pods together get no more of the processors than a single session beside them, the tests' or a
        # daemon's, and on a busy machine the operator loses its lease.
        for name, share in (("cpu.shares", POD_SHARES), ("cpu.weight", POD_WEIGHT)):
            if (folder / name).exists():
                (folder / name).write_text(str(share))


def cgroup_folders(layout: Layout) -> list[Path]:
    """Return the cgroup's directory in each hierarchy: one on cgroup v2, one per controller on v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS / layout.name]
    return [path / layout.name for path in sorted(CGROUPS.iterdir()) if path.is_dir() and not path.is_symlink()]


def _inherit_cpuset(folder: Path) -> None:
    # A new v1 cpuset is empty and takes no process until it has CPUs and memory nodes.
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if file.exists() and not (CGROUPS / "cgroup.controllers").exists() and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())
