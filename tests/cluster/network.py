"""The bare node's own network: a namespace with one bridge that carries the node's address.

A bridge stands in for a network card because kernels without the dummy device have it (pods need it anyway).
Nothing is added to the machine's own network.
"""

from __future__ import annotations

import os

from tests.cluster.paths import Layout
from tests.cluster.progress import run

NODE_IP = "10.89.0.1"
NODE_PREFIX = 24
POD_CIDR = "10.244.0.0/16"
NODE_POD_CIDR = "10.244.0.0/24"
SECOND_IP = "10.89.0.2"
SECOND_POD_CIDR = "10.244.1.0/24"


def exists(layout: Layout) -> bool:
    """Whether the namespace is there and mounted (after a reboot an empty file would be left)."""
    return layout.netns.exists() and os.path.ismount(layout.netns)


def create(layout: Layout) -> None:
    """Make the namespace with loopback, the node's bridge and a default route."""
    run(["ip", "netns", "add", layout.name])
    inside = [*layout.inside(), "ip"]
    run([*inside, "link", "set", "lo", "up"])
    run([*inside, "link", "add", "node0", "type", "bridge"])
    run([*inside, "addr", "add", f"{NODE_IP}/{NODE_PREFIX}", "dev", "node0"])
    run([*inside, "link", "set", "node0", "up"])
    # kubelet and kube-apiserver look for the interface of the default route to learn their address.
    run([*inside, "route", "add", "default", "dev", "node0"])
    run([*layout.inside(), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])


def create_second(layout: Layout, first: Layout) -> None:
    """Make the namespace of a second node, whose card is plugged into the first one's bridge."""
    run(["ip", "netns", "add", layout.name])
    inside, inside_first = [*layout.inside(), "ip"], [*first.inside(), "ip"]
    run([*inside, "link", "set", "lo", "up"])
    # It goes with the namespace that its other end is in.
    peer = ("type", "veth", "peer", "name", "eth0", "netns", layout.name)
    run([*inside_first, "link", "add", "node2", *peer])
    run([*inside_first, "link", "set", "node2", "master", "node0", "up"])
    run([*inside, "addr", "add", f"{SECOND_IP}/{NODE_PREFIX}", "dev", "eth0"])
    run([*inside, "link", "set", "eth0", "up"])
    run([*inside, "route", "add", "default", "via", NODE_IP])
    run([*inside_first, "route", "replace", SECOND_POD_CIDR, "via", SECOND_IP])
    run([*layout.inside(), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
