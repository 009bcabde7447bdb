"""Programs the rig needs: Debian packages, and Go programs built once and kept by version.

The folder of built programs is named by a hash of everything that decides their bytes, so a changed version
never meets an old binary. Building again with a warm Go build cache takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from tests.cluster import locks
from tests.cluster.paths import HERE, cache
from tests.cluster.progress import ClusterError, run, say

KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)

# Name of the binary -> package among the tools of go.mod here. etcd has the version Kubernetes is built against: with
# Debian's older one the API server lacks watch progress and consistent lists from its cache.
GO_TOOLS = {name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES} | {"etcd": "go.etcd.io/etcd/server/v3"}

# Clients of a cluster that go.mod in CLIENTS pins. One module: Kubernetes' client library is compiled for all of them
# once, which takes longer than the rest of each; and not the module of Kubernetes, whose versions they would raise.
CLIENTS = HERE / "clients"
CLIENT_TOOLS = {
    "helm": "helm.sh/helm/v4/cmd/helm",
    "coredns": "github.com/coredns/coredns",
    "local-path-provisioner": "github.com/rancher/local-path-provisioner",
}

MODULES = {HERE: GO_TOOLS, CLIENTS: CLIENT_TOOLS}

# Name of the binary -> module path and version for `go install`.
GO_INSTALL = {
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
    "kube-score": "github.com/zegl/kube-score/cmd/kube-score@v1.20.0",
    "kind": "sigs.k8s.io/kind@v0.33.0",
}

# The linker leaves it out (-s -w): not to make it saves a tenth of the compiler's time.
NO_DEBUG_INFORMATION = "all=-dwarf=false"

# Each in a folder of its own: a newer version has nobody build the others anew. crane asks image registries,
# helm-docs writes the chart's README.
CRANE = "github.com/google/go-containerregistry/cmd/crane@v0.22.1"
HELM_DOCS = "github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2"

# What one end-to-end test needs: Prometheus without its service discoveries, and an adapter of metrics. Each in a
# module of its own, as they want other versions than the rest.
PROMETHEUS, METRICS_ADAPTER = HERE / "prometheus", HERE / "metrics_adapter"
METRICS_TOOLS = {
    PROMETHEUS: {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
    METRICS_ADAPTER: {"metrics_adapter": "efrit.dev/tests/cluster/metrics_adapter"},
}
WITHOUT_DISCOVERY = "remove_all_sd"

FOR_CONTROL_PLANE = ("etcd", "kube-apiserver", "kubectl")
FOR_BARE = (*GO_TOOLS, "coredns", "local-path-provisioner", "helm")
FOR_KIND = ("kind", "kubectl", "helm")
FOR_EXISTING = ("kubectl", "helm")
FOR_CHECK = ("helm", "kubeconform", "kube-score")

# Program -> Debian package that has it.
DEBIAN_CONTROL_PLANE = {"openssl": "openssl"}
DEBIAN_BARE = {
    **DEBIAN_CONTROL_PLANE,
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mount": "mount",
    "gcc": "gcc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/x86_64-linux-gnu/libc.a|/usr/lib/aarch64-linux-gnu/libc.a": "libc6-dev",
    "busybox": "busybox-static",
}
DEBIAN_TEST = {
    **DEBIAN_CONTROL_PLANE,
    "emacs": "emacs-nox",
    "curl": "curl",
    "git": "git",
    "zsh": "zsh",
    "ssh-agent": "openssh-client",
    "mmdebstrap": "mmdebstrap",
    "unshare": "util-linux",
    # The storage faults: a small library is compiled, and checked against what strace saw.
    "gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
    "strace": "strace",
    # An image built from a pinned base; without Docker by buildah.
    "buildah": "buildah",
    "busybox": "busybox-static",
}
DEBIAN_IMAGES = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}


def kubernetes_version() -> str:
    """Return the version that go.mod pins, such as v1.36.3."""
    match = re.search(r"^\s*k8s\.io/kubernetes (v[0-9.]+)\b", (HERE / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise ClusterError("tests/cluster/go.mod names no version of k8s.io/kubernetes.")
    return match.group(1)


def kubernetes_ldflags(version: str) -> str:
    """Linker flags that stamp the version in, as the release build does: unstamped binaries say v0.0.0."""
    major, minor = version.removeprefix("v").split(".")[:2]
    component, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    return (
        f"-s -w -X {component}.gitVersion={version} -X {component}.gitMajor={major} "
        f"-X {component}.gitMinor={minor} -X {client}.gitVersion={version}"
    )


def directory() -> Path:
    """Folder of the built programs for the versions pinned now."""
    inputs = [(module / name).read_text() for module in MODULES for name in ("go.mod", "go.sum")]
    inputs += [json.dumps(GO_INSTALL), kubernetes_ldflags(kubernetes_version()), platform.machine()]
    return cache() / "bin" / hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]


def program(name: str) -> Path:
    """Path of a built program; ClusterError if it has not been built."""
    path = directory() / name
    if not path.exists():
        raise ClusterError(f"{name} is not built yet; run `python3 -m tests.cluster tools`.")
    return path


def ensure_go_programs(names: Iterable[str]) -> None:
    """Build whichever of the named programs are missing; a no-op of milliseconds otherwise."""
    missing = [name for name in names if not (directory() / name).exists()]
    if not missing:
        return
    _require_go()
    # Together: while one program is linked, for which one processor does most, others are compiled.
    for module, packages in MODULES.items():
        tools = {name: package for name, package in packages.items() if name in missing}
        if tools:
            flags = kubernetes_ldflags(kubernetes_version()) if module == HERE else "-s -w"
            _build(directory(), tools, flags, module)
    for name, target in GO_INSTALL.items():
        if name in missing:
            _build(directory(), {name: target}, "-s -w", Path.home())


def crane() -> Path:
    """Path of crane, which asks image registries; built if it is missing."""
    return _in_own_folder("crane", CRANE)


def helm_docs() -> Path:
    """Path of helm-docs, which writes the chart's README; built if it is missing."""
    return _in_own_folder("helm-docs", HELM_DOCS)


def _in_own_folder(name: str, target: str) -> Path:
    """Path of a program that is kept apart from the others; built if it is missing."""
    path = cache() / "bin" / f"{name}-{target.partition('@')[2]}-{platform.machine()}" / name
    if not path.exists():
        _require_go()
        _build(path.parent, {name: target}, "-s -w", Path.home())
    return path


def metrics_programs() -> dict[str, Path]:
    """Return the paths of Prometheus and the adapter by their names; built if they are missing."""
    built: dict[str, Path] = {}
    for module, tools in METRICS_TOOLS.items():
        inputs = [file.read_text() for file in sorted(module.iterdir()) if file.is_file()]
        digest = hashlib.sha256("\0".join([*inputs, platform.machine()]).encode()).hexdigest()[:16]
        folder = cache() / "bin" / f"{module.name}-{digest}"
        if not all((folder / name).exists() for name in tools):
            _require_go()
            _build(folder, tools, "-s -w", module, tags=WITHOUT_DISCOVERY)
        built |= {name: folder / name for name in tools}
    return built


def _build(folder: Path, targets: Mapping[str, str], flags: str, where: Path, *, tags: str = "") -> None:
    """Have `go install` build programs by their packages; the go.mod of the directory WHERE names their versions."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as until_built:
        for name in sorted(targets):
            until_built.enter_context(_one_builder(folder / name))
        # Another process may have built some meanwhile.
        missing = {name: target for name, target in targets.items() if not (folder / name).exists()}
        if not missing:
            return
        scratch = Path(until_built.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix=".building-")))
        run(
            ["go", "install", "-tags", tags, "-ldflags", flags, "-gcflags", NO_DEBUG_INFORMATION, *missing.values()],
            doing=f"building {_named(list(missing))} (minutes the first time, then cached)",
            cwd=where,
            env={"GOBIN": str(scratch), "CGO_ENABLED": "0"},
        )
        for name, target in missing.items():
            built = scratch / _installed_as(target)
            if not built.exists():
                raise ClusterError(f"`go install {target}` left no program.")
            # One rename makes it appear whole: a build that is interrupted leaves nothing behind.
            built.rename(folder / name)


def _named(names: Sequence[str]) -> str:
    others = len(names) - 1
    return f"{names[0]} and {others} other program{'s' if others > 1 else ''}" if others else names[0]


def _installed_as(target: str) -> str:
    """Return how `go install` names the program of a package: etcd's is called `server`, as `v3` is a version."""
    *_, parent, last = target.partition("@")[0].split("/")
    return parent if re.fullmatch(r"v[0-9]+", last) else last


def _one_builder(path: Path) -> AbstractContextManager[None]:
    """Hold the lock of this program: processes that miss the same one build it once. It ends with the process."""
    return locks.exclusive_lock(
        path.parent / f".{path.name}.lock", f"another process is building {path.name}: waiting for it"
    )


def _require_go() -> None:
    if shutil.which("go") is None:
        raise ClusterError("Go 1.26 or newer is needed to build the cluster's programs (https://go.dev/dl/).")
    version = run(["go", "env", "GOVERSION"], cwd=Path.home()).strip()
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < (1, 26):
        raise ClusterError(f"Go 1.26 or newer is needed to build the cluster's programs; this is {version}.")


def ensure_debian_packages(packages: dict[str, str]) -> None:
    """Install the packages whose program is missing; needs Debian or Ubuntu, and root."""
    missing = sorted({package for name, package in packages.items() if not _present(name)})
    if not missing:
        return
    advice = f"install {', '.join(missing)} yourself, or start Docker and use CLUSTER=kind"
    if shutil.which("apt-get") is None:
        raise ClusterError(f"This is no Debian system: {advice}.")
    if os.geteuid() != 0:
        raise ClusterError(f"Installing packages takes root: {advice}.")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    # One installation at a time: apt-get does not wait for another.
    with locks.exclusive_lock(cache() / "apt.lock", "another process is installing Debian packages: waiting for it"):
        try:
            run(install, doing=f"installing Debian packages: {' '.join(missing)}", env=quiet)
        except ClusterError:
            # Lists may be old or absent (containers): refresh once, then let a second failure speak.
            run(["apt-get", "update", "-q"], doing="refreshing the package lists", env=quiet)
            run(install, doing=f"installing Debian packages: {' '.join(missing)}", env=quiet)


def _present(name: str) -> bool:
    if name.startswith("/"):
        return any(Path(path).exists() for path in name.split("|"))
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/sbin") is not None


def announce() -> None:
    """Say where the programs are."""
    say(f"programs: {directory()}")
