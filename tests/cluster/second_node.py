"""A second node for the bare cluster, for as long as a test needs it: containerd, kubelet and kube-proxy of its own.

It has another network namespace on the first one's bridge, other folders and another cgroup. Only pods that tolerate
its taint run there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster import images, network, node, node_images, paths, programs, teardown
from tests.cluster.bare import BareCluster
from tests.cluster.progress import ClusterError, run, wait_until

IMAGES = (node.PAUSE_IMAGE, "localhost/efrit/operator:dev", "localhost/efrit/emacs:30-dev")
"""What the pods of an instance are made of: to import an image takes a second or more of a processor."""


@contextmanager
def second_node(cluster: BareCluster) -> Iterator[str]:
    """Yield the name of a node that is Ready; it is gone after the block."""
    layout, plane = cluster.layout.second, cluster.reached()
    _remove(layout)
    try:
        layout.data.mkdir(parents=True)
        layout.data.chmod(0o711)
        network.create_second(layout, cluster.layout)
        node.write_node_files(layout, cluster.inner_plane(), node.SECOND)
        containerd = node.containerd(layout)
        containerd.start()
        wait_until(lambda: _answers(layout), "an answer from containerd", hint=f"See {containerd.log}.")
        archives = {**node_images.archives(), **images.built()}
        for name, archive in ((name, archive) for name, archive in archives.items() if name in IMAGES):
            importing = ("ctr", "--address", layout.containerd_socket, "--namespace", "k8s.io", "images", "import")
            run([*importing, archive], doing=f"importing {name} into the second node")
        node.make_cgroup(layout)
        for daemon in node.agents(layout, node.SECOND):
            daemon.start()
        where = f"/api/v1/nodes/{node.SECOND.name}"

        def is_ready() -> bool:
            obj = plane.request(where, host="127.0.0.1", port=plane.ports.api)
            conditions = obj["status"].get("conditions", ()) if obj else ()
            return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

        wait_until(is_ready, "a ready second node", hint=f"See {layout.data / 'logs'}.")
        yield node.SECOND.name
    finally:
        _remove(layout)


def _remove(layout: paths.Layout) -> None:
    """Remove the node, its object too: one that is left says Ready until the cluster misses its heartbeat."""
    teardown.remove(layout)
    delete = ["delete", "node", node.SECOND.name, "--ignore-not-found"]
    run([programs.program("kubectl"), "--kubeconfig", paths.kubeconfig(), *delete])


def _answers(layout: paths.Layout) -> bool:
    try:
        run(["ctr", "--address", layout.containerd_socket, "version"])
    except ClusterError:
        return False
    return True
