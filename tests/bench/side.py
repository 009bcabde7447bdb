"""One set of real processes for a benchmark: API server, etcd, controller, and an instance's bridge and Emacs.

`tests.bench.sides` runs this file with the interpreter of the checkout whose product is measured, which may be an
older one: it may import nothing of tests.bench. Prints one line of JSON once the instance is Ready, and ends with its
standard input.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from tests.cluster.control_plane import ControlPlane
from tests.support.command_line import parser
from tests.support.compiled_lisp import compiled_lisp
from tests.support.custom_resources import install_crds, new_namespace
from tests.support.kube import Kube
from tests.support.site import Site

INSTANCE = "one"


def main() -> None:
    """Serve until the standard input ends."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="efrit-bench-")))
        plane = stack.enter_context(ControlPlane())
        kube = stack.enter_context(closing(Kube(plane)))
        install_crds(kube)
        site = Site(plane, kube, directory / "audit.log", compiled_lisp(directory / "lisp"), usual_lease=True)
        stack.callback(site.close)
        operator = site.operator()
        operator.start()
        site.instance(INSTANCE)
        pod = site.node.pod(INSTANCE)
        leaders = {
            "API server": plane.apiserver.pid(),
            "etcd": plane.etcd.pid(),
            "controller": operator.process.pid,
            "bridge": pod._bridge.pid if pod._bridge else None,
            "Emacs": pod._emacs.pid if pod._emacs else None,
        }
        served = {"namespace": site.namespace, "instance": INSTANCE, "unserved": new_namespace(kube)}
        print(json.dumps({"kubeconfig": str(plane.kubeconfig), "leaders": leaders, **served}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
