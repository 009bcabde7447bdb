"""The pod of a controller, as its kubelet reports it: a container that ends and is restarted.

Only what the API server is told; the process itself is `operator.py`'s.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx

from tests.support.kube import Json, Kube, Refused

CONTAINER = "controller"
PAUSE_SECONDS = 0.2


class OperatorPod:
    """One pod with one container. What cannot be reported now is reported once the API server is there again."""

    def __init__(self, kube: Kube, namespace: str, name: str, account: str, log: Path) -> None:
        """log: the termination log of the container that runs now, or ran last."""
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._account = account
        self._log = log
        self._restarts = -1
        self._last: Json = {}
        self._lock = threading.Lock()
        self._reports = 0

    def container_starts(self) -> None:
        """Report a container that runs, after one that has ended if there was one; its log is empty."""
        if self._restarts >= 0:
            self._last = self._terminated()
        self._restarts += 1
        self._log.write_text("")
        self._report({"running": {}})

    def container_ended(self) -> None:
        """Report that the container has ended, and what it left in its log."""
        self._report(self._terminated())

    def close(self) -> None:
        """Report nothing any more."""
        with self._lock:
            self._reports += 1

    def _terminated(self) -> Json:
        return {"terminated": {"exitCode": 137, "reason": "Error", "message": self._log.read_text()}}

    def _report(self, state: Json) -> None:
        status: Json = {
            "name": CONTAINER,
            "image": "efrit/operator",
            "imageID": "",
            "ready": "running" in state,
            "restartCount": self._restarts,
            "state": state,
            "lastState": self._last,
        }
        with self._lock:
            self._reports += 1
            number = self._reports
        if not self._write(number, status):
            threading.Thread(target=self._write_later, args=(number, status), daemon=True).start()

    def _write_later(self, number: int, status: Json) -> None:
        while not self._write(number, status):
            time.sleep(PAUSE_SECONDS)

    def _write(self, number: int, status: Json) -> bool:
        """Write a status unless there is a later one; False where the API server is away."""
        with self._lock:
            if number != self._reports:
                return True
            try:
                if self._kube.find("pods", self._namespace, self._name) is None:
                    self._kube.create("pods", self._namespace, self._manifest())
                body = {"status": {"phase": "Running", "containerStatuses": [status]}}
                self._kube.patch("pods", self._namespace, self._name, body, "status")
            except httpx.TransportError:
                return False
            except Refused as error:
                if error.status < 500:
                    raise
                return False
            return True

    def _manifest(self) -> Json:
        container = {"name": CONTAINER, "image": "efrit/operator"}
        spec = {"containers": [container], "nodeName": "node", "serviceAccountName": self._account}
        return {"metadata": {"name": self._name}, "spec": spec}
