"""One pod of an instance as processes: the bridge and run-emacs, with the template's environment and volumes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from efrit import resources
from tests.cluster.ports import free_port
from tests.support.earlier_build import Part, earlier_build
from tests.support.kube import Json
from tests.support.processes import Process

BRIDGE = "bridge"
"""The name of its container."""
EMACS_PROGRAM = Path(__file__).parent / "bin"
"""Has an `emacs` that ends with run-emacs however that ends, so that none outlives a test run that is killed."""


class Pod:
    """Made from a StatefulSet's template; `claims` outlive it. provision: called with the place of each volume."""

    def __init__(
        self,
        statefulset: Json,
        claims: Path,
        lisp: Path,
        directory: Path,
        provision: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._provision = provision
        meta, template = statefulset["metadata"], statefulset["spec"]["template"]
        self.name = f"{meta['name']}-0"
        self.instance: str = template["metadata"]["labels"]["efrit.dev/instance"]
        self.template_hash = meta["annotations"]["efrit.dev/template-hash"]
        self.port = free_port()
        self.uid = ""
        self.restarts = 0
        self._directory = directory
        self._lisp = lisp
        self._spec = json.loads(json.dumps(template["spec"]))
        self._spec["initContainers"][0]["ports"][0]["containerPort"] = self.port
        self._volumes = {volume["name"]: self._volume(volume, claims) for volume in self._spec["volumes"]}
        self.environment: Mapping[str, str] = {}
        """Further variables of its processes."""
        self._bridge: Process | None = None
        self._emacs: Process | None = None
        self.manifest: Json = {
            "metadata": {
                "name": self.name,
                # As the StatefulSet controller has it.
                "labels": {**template["metadata"]["labels"], "statefulset.kubernetes.io/pod-name": self.name},
                "annotations": template["metadata"]["annotations"],
                "ownerReferences": [resources.STATEFULSETS.reference(meta["name"], meta["uid"], controller=True)],
            },
            "spec": {**self._spec, "nodeName": "node"},
        }

    def _volume(self, volume: Json, claims: Path) -> Path:
        claim = volume.get("persistentVolumeClaim")
        path: Path = claims / claim["claimName"] if claim else self._directory / volume["name"]
        if claim or volume["name"] in ("queue", "workspace"):
            self._provision(path)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def volume(self, name: str) -> Path:
        """Return the root of a volume: queue, workspace or another of the template."""
        return self._volumes[name]

    @property
    def images(self) -> set[str]:
        """The images of its containers."""
        return {container["image"] for container in (*self._spec["initContainers"], *self._spec["containers"])}

    @property
    def secret_name(self) -> str:
        """The Secret that the bridge mounts."""
        volume = next(volume for volume in self._spec["volumes"] if volume["name"] == "bridge")
        name: str = volume["secret"]["secretName"]
        return name

    @property
    def users_secrets(self) -> dict[str, str]:
        """The Secrets of its user that it mounts: volume -> name."""
        sources = {volume["name"]: volume["secret"] for volume in self._spec["volumes"] if "secret" in volume}
        return {
            volume: source["secretName"]
            for volume, source in sources.items()
            if volume != "bridge" and not source.get("optional")
        }

    @property
    def queue(self) -> Path:
        """Directory of the request queue."""
        return self._volumes["queue"] / "queue"

    @property
    def workspace(self) -> Path:
        """Emacs' default directory."""
        return self._volumes["workspace"]

    def mount_secret(self, secret: Json, volume: str = "bridge") -> None:
        """Write the files of a Secret; those of a user's may have other names than its keys."""
        source = next(item["secret"] for item in self._spec["volumes"] if item["name"] == volume)
        paths = {item["key"]: item["path"] for item in source.get("items", ())}
        files = {paths.get(name, name): base64.b64decode(value) for name, value in secret["data"].items()}
        for name, content in files.items():
            (self._volumes[volume] / name).write_bytes(content)
        for path in self._volumes[volume].iterdir():
            if path.name not in files:
                path.unlink()

    def start(self) -> None:
        """Start what does not run: the bridge first, as a sidecar does."""
        if self._bridge is None or self._bridge.status is not None:
            self.restarts += self._bridge is not None
            self._bridge = self._run(self._spec["initContainers"][0])
        if self._emacs is None or self._emacs.status is not None:
            self._emacs = self._run(self._spec["containers"][0])

    @property
    def started(self) -> bool:
        """Whether its containers were ever started."""
        return self._bridge is not None

    @property
    def running(self) -> bool:
        """Whether both containers run."""
        return all(process is not None and process.status is None for process in (self._bridge, self._emacs))

    def _run(self, container: Json) -> Process:
        mounts = {
            volume_mount["mountPath"]: self._mounted(volume_mount) for volume_mount in container["volumeMounts"]
        }
        env = {variable["name"]: _moved(variable["value"], mounts) for variable in container["env"]}
        env |= {
            "PATH": f"{EMACS_PROGRAM}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TMPDIR": str(mounts["/tmp"]),
            "EFRIT_BRIDGE_HOST": "127.0.0.1",
            "EFRIT_BRIDGE_PORT": str(self.port),
            # Nobody probes it, and the next pod of this machine would find the port taken.
            "EFRIT_BRIDGE_PROBE_PORT": "",
            "EFRIT_LISP_SOURCE": str(self._lisp),
            "EFRIT_KILL_GRACE_SECONDS": "5",
        }
        earlier = earlier_build(Part.BRIDGE) if container["name"] == BRIDGE else None
        if earlier is not None:
            env |= {"PATH": f"{earlier.programs}:{env['PATH']}", "EFRIT_LISP_SOURCE": str(earlier.lisp)}
        env |= self.environment
        env.setdefault("HOME", str(self._directory))
        command = [_moved(word, mounts) for word in container["command"]]
        log = self._directory / f"{container['name']}.log"
        return Process(command, env, log, mounts.get("/workspace", self._directory))

    def _mounted(self, mount: Json) -> Path:
        path: Path = self._volumes[mount["name"]] / mount.get("subPath", "")
        path.mkdir(exist_ok=True)
        return path

    def status(self, *, pulled: bool = True) -> Json:
        """Return what the kubelet would report; without `pulled`, of images that it cannot get."""
        if not pulled:
            waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
            bridge, emacs = self._spec["initContainers"][0], self._spec["containers"][0]
            rest = {"imageID": "", "ready": False, "started": False, "restartCount": 0, "state": waiting}
            return {
                "phase": "Pending",
                "initContainerStatuses": [{"name": bridge["name"], "image": bridge["image"], **rest}],
                "containerStatuses": [{"name": emacs["name"], "image": emacs["image"], **rest}],
            }
        state = {"running": {"startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}

        def of(container: Json, restarts: int) -> Json:
            head = {key: container[key] for key in ("name", "image")}
            return {**head, "imageID": "", "ready": True, "started": True, "restartCount": restarts, "state": state}

        return {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "startTime": state["running"]["startedAt"],
            "initContainerStatuses": [of(self._spec["initContainers"][0], self.restarts)],
            "containerStatuses": [of(self._spec["containers"][0], 0)],
        }

    def emacs_pid(self) -> int | None:
        """Return the pid in the heartbeat, None before there is one of this pod's."""
        try:
            pid: int = json.loads((self.queue / "heartbeat").read_text())["pid"]
            ours = self._emacs is not None and os.getsid(pid) == self._emacs.pid
        except (OSError, ValueError):
            return None
        return pid if ours else None

    def kill_emacs(self) -> None:
        """SIGKILL to Emacs alone; run-emacs starts another."""
        pid = self.emacs_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def kill_bridge(self) -> None:
        """SIGKILL to the bridge; whoever runs the pod starts it again."""
        assert self._bridge is not None
        self._bridge.kill()

    @property
    def bridge_pid(self) -> int:
        """The process of the bridge that was started last."""
        assert self._bridge is not None
        return self._bridge.pid

    def freeze_bridge(self, frozen: bool) -> None:
        assert self._bridge is not None
        self._bridge.send(signal.SIGSTOP if frozen else signal.SIGCONT)

    @property
    def bridge_is_asked_to_stop(self) -> bool:
        """Whether a SIGTERM waits for the bridge, which is frozen: Emacs has ended then."""
        assert self._bridge is not None
        status = Path(f"/proc/{self._bridge.pid}/status").read_text()
        pending = next(line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:"))
        return bool(int(pending, 16) & 1 << (signal.SIGTERM - 1))

    def kill(self) -> None:
        """SIGKILL to every process, as when the node loses power; whoever runs the pod starts them again."""
        for process in (self._emacs, self._bridge):
            if process is not None:
                process.kill()

    @property
    def queue_outlives_it(self) -> bool:
        """Whether the queue lies on a claim."""
        return not self.queue.is_relative_to(self._directory)

    def end(self, grace: float) -> None:
        """Stop as the kubelet does: Emacs first, the sidecar after it, SIGKILL after `grace` seconds."""
        for process in (self._emacs, self._bridge):
            if process is not None:
                with contextlib.suppress(Exception):
                    process.terminate(grace)
                process.kill()

    def logs(self) -> str:
        """Return the ends of both logs, for messages."""
        processes = [process for process in (self._bridge, self._emacs) if process is not None]
        return "\n".join(f"--- {process.log.stem}\n{process.tail(12)}" for process in processes)


def _moved(text: str, mounts: dict[str, Path]) -> str:
    """Return a path, or a shell line, of the container as it is on this machine."""
    longest_first = sorted(mounts, key=len, reverse=True)
    pattern = rf"(?<![^ ])({'|'.join(map(re.escape, longest_first))})(?![^/ ])"
    # In one go: a path put in must not be looked at again.
    return re.sub(pattern, lambda match: str(mounts[match[1]]), text)
