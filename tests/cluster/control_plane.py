"""etcd and kube-apiserver as ordinary processes.

Integration tests use `ControlPlane` as a context manager: a real API server on free loopback ports in a
directory of its own, ready in a few seconds, gone without a trace at the end. The bare cluster uses the same
class with the node's addresses, inside the node's network.

    with ControlPlane() as plane:
        config = plane.kubeconfig
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster import programs
from tests.cluster.certificates import BY_TOKEN, Authority
from tests.cluster.ports import free_port
from tests.cluster.processes import Daemon
from tests.cluster.progress import ClusterError, wait_until
from tests.scratch import owned_directory, remove

SERVICE_CIDR = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
FRONT_PROXY = "front-proxy-client"


@dataclass(frozen=True)
class Ports:
    """Ports of one control plane."""

    api: int
    etcd: int
    peer: int

    @classmethod
    def free(cls) -> Ports:
        """Three loopback ports nobody listens on."""
        return cls(free_port(), free_port(), free_port())


class ControlPlane:
    """One etcd and one kube-apiserver.

    directory: where everything is kept; a temporary one, removed by stop(), when None.
    fsync: let etcd sync to disk as in production; off by default because tests do not outlive the machine.
    node_ip: address of the node whose kubelet the API server talks to; None for a control plane without nodes.
    inside: words put before the commands, to run them in another network namespace.
    flags: further kube-apiserver flags, such as `("--feature-gates=X=true",)`.
    kubeconfig: of a control plane that others have begun and that is reached at another address than its own.
    dies_with_parent: have the kernel kill both when the starting process dies; on by default without a node.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        fsync: bool = False,
        ports: Ports | None = None,
        node_ip: str | None = None,
        inside: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
        dies_with_parent: bool | None = None,
        kubeconfig: Path | None = None,
    ) -> None:
        self._temporary = directory is None
        self.directory = directory or owned_directory("control-plane")
        self.fsync = fsync
        self.ports = ports or Ports.free()
        self.node_ip = node_ip
        self.inside = inside
        self.flags = flags
        self.dies_with_parent = node_ip is None if dies_with_parent is None else dies_with_parent
        self.authority = Authority(self.directory / "pki")
        self.kubeconfig = kubeconfig or self.directory / "admin.kubeconfig"
        """Kubeconfig of a member of system:masters, for `url`."""

    @property
    def host(self) -> str:
        """Address the API server is reached at, from within its own network."""
        return self.node_ip or "127.0.0.1"

    @property
    def url(self) -> str:
        """Base URL of the API server, from within its own network."""
        return f"https://{self.host}:{self.ports.api}"

    @property
    def context(self) -> str | None:
        """The context of the kubeconfig that takes the API server least; None for its current one.

        By a token where there is one: the API server verifies a certificate anew at each call.
        """
        return BY_TOKEN if self.authority.tokens.exists() else None

    @property
    def etcd(self) -> Daemon:
        """The store."""
        client = f"http://127.0.0.1:{self.ports.etcd}"
        peer = f"http://127.0.0.1:{self.ports.peer}"
        command = [*self.inside, str(programs.program("etcd")), "--data-dir", str(self.directory / "etcd")]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"default={peer}", "--logger=zap", "--log-level=warn"]
        if not self.fsync:
            command.append("--unsafe-no-fsync")
        return Daemon("etcd", tuple(command), self.directory)

    @property
    def apiserver(self) -> Daemon:
        """The API server."""
        pki = self.authority
        command = [*self.inside, str(programs.program("kube-apiserver"))]
        command += [
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            f"--tls-cert-file={pki.certificate('apiserver')}",
            f"--tls-private-key-file={pki.key('apiserver')}",
            f"--client-ca-file={pki.ca}",
            f"--cert-dir={pki.directory}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={pki.key('sa')}",
            f"--service-account-key-file={pki.key('sa')}",
            "--authorization-mode=Node,RBAC",
            f"--secure-port={self.ports.api}",
            "--allow-privileged=true",
            "--profiling=false",
        ]
        if self.node_ip:
            command += [
                "--enable-admission-plugins=NodeRestriction",
                "--bind-address=0.0.0.0",
                f"--advertise-address={self.node_ip}",
                f"--kubelet-client-certificate={pki.certificate('admin')}",
                f"--kubelet-client-key={pki.key('admin')}",
                f"--kubelet-certificate-authority={pki.ca}",
                "--kubelet-preferred-address-types=InternalIP",
                # An API server behind an APIService believes the name of the user that this one passes on.
                f"--proxy-client-cert-file={pki.certificate(FRONT_PROXY)}",
                f"--proxy-client-key-file={pki.key(FRONT_PROXY)}",
                f"--requestheader-client-ca-file={pki.ca}",
                f"--requestheader-allowed-names={FRONT_PROXY}",
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            ]
        else:
            # Without a controller manager no namespace gets its `default` service account, and the
            # ServiceAccount plugin would refuse every pod.
            command += [
                "--disable-admission-plugins=ServiceAccount",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--token-auth-file={pki.tokens}",
            ]
        return Daemon("kube-apiserver", (*command, *self.flags), self.directory)

    def prepare(self) -> None:
        """Make certificates and the administrator's kubeconfig, unless they are there."""
        if self.kubeconfig.exists():
            return
        names = ["DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc"]
        addresses = {"127.0.0.1", SERVICE_IP, self.host}
        self.authority.create()
        self.authority.issue(
            "apiserver", "/CN=kube-apiserver", [*names, *(f"IP:{address}" for address in sorted(addresses))]
        )
        self.authority.issue("admin", "/O=system:masters/CN=admin", ["DNS:admin"])
        if self.node_ip:
            self.authority.issue(FRONT_PROXY, f"/CN={FRONT_PROXY}", [f"DNS:{FRONT_PROXY}"])
        else:
            self.authority.issue_token("admin", "system:masters")
        self.authority.write_kubeconfig(self.kubeconfig, "admin", self.url)

    def start(self, *, wait: bool = True) -> None:
        """Start what does not run; with `wait`, return when the API server says it is ready."""
        if not self.node_ip:
            programs.ensure_debian_packages(programs.DEBIAN_CONTROL_PLANE)
            programs.ensure_go_programs(programs.FOR_CONTROL_PLANE)
        self.prepare()
        for daemon in (self.etcd, self.apiserver):
            if daemon.pid() is None:
                daemon.start(dies_with_parent=self.dies_with_parent)
        if wait:
            self.wait_ready(self.host, self.ports.api)

    def wait_ready(self, host: str, port: int) -> None:
        """Wait for /readyz at an address (the node's, or a forwarded one)."""

        def ready() -> bool:
            for daemon in (self.etcd, self.apiserver):
                if daemon.pid() is None:
                    raise ClusterError(f"{daemon.name} ended; its log {daemon.log} ends:\n{daemon.log_tail()}")
            return self.request("/readyz", host=host, port=port) is not None

        # Each check takes the API server, which has to start meanwhile, several milliseconds.
        hint = f"See {self.apiserver.log}."
        wait_until(ready, "a ready API server", pause=0.3, hint=hint)

    def request(self, path: str, *, host: str | None = None, port: int | None = None) -> Any | None:
        """GET as administrator: parsed JSON (or text), None when it cannot be had for any reason."""
        connection: http.client.HTTPSConnection | None = None
        try:
            context = self.authority.client_context("admin")
            connection = http.client.HTTPSConnection(
                host or self.host, port or self.ports.api, timeout=5, context=context
            )
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            if connection is not None:
                connection.close()
        if response.status != http.HTTPStatus.OK:
            return None
        return json.loads(body) if body[:1] in b"{[" else body.decode()

    def stop(self) -> None:
        """Kill both (nothing they hold is worth a clean end) and remove a temporary directory."""
        for daemon in (self.apiserver, self.etcd):
            daemon.stop()
        if self._temporary:
            remove(self.directory)

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
