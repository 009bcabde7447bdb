"""The pod of a controller, as its kubelet reports it: a container that ends and is restarted.

Only what is written to the API server; the process itself is `operator.py`'s.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from efrit.errors import ApiError, ApiUnreachable
from tests.support.kube import Json, Kube

CONTAINER = "controller"
PAUSE_SECONDS = 0.2


class OperatorPod:
    """One pod with one container, reported by a thread, and later while the API server is away or frozen."""

    def __init__(self, kube: Kube, namespace: str, name: str, account: str, log: Path) -> None:
        """log: the termination log of the container that runs now, or ran last."""
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._account = account
        self._log = log
        self._restarts = -1
        self._last: Json = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._report: Json | None = None
        """What is yet to be written to the API server."""
        self._closed = False
        self._refusal: ApiError | None = None

    def container_starts(self) -> None:
        """Report a container that runs, after one that has ended if there was one; its log is empty."""
        if self._restarts >= 0:
            self._last = self._terminated()
        self._restarts += 1
        self._log.write_text("")
        self._set_state({"running": {}})

    def container_ended(self) -> None:
        """Report that the container has ended, and what it left in its log."""
        self._set_state(self._terminated())

    def reported(self) -> bool:
        """Whether all has been written to the API server. Raises ApiError."""
        with self._changed:
            if self._refusal is not None:
                raise self._refusal
            return self._report is None

    def close(self) -> None:
        """Report nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _terminated(self) -> Json:
        return {"terminated": {"exitCode": 137, "reason": "Error", "message": self._log.read_text()}}

    def _set_state(self, state: Json) -> None:
        report: Json = {
            "name": CONTAINER,
            "image": "efrit/operator",
            "imageID": "",
            "ready": "running" in state,
            "restartCount": self._restarts,
            "state": state,
            "lastState": self._last,
        }
        with self._changed:
            self._report = report
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"kubelet of {self._name}", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._report is not None)
                report = self._report
                if self._closed or report is None:
                    return
            try:
                self._write(report)
            except ApiUnreachable:
                time.sleep(PAUSE_SECONDS)
                continue
            except ApiError as error:
                if error.status is not None and error.status >= 500:
                    time.sleep(PAUSE_SECONDS)
                    continue
                self._refusal = error
            with self._changed:
                if self._report is report:
                    self._report = None

    def _write(self, report: Json) -> None:
        if self._kube.find("pods", self._namespace, self._name) is None:
            self._kube.create("pods", self._namespace, self._manifest())
        body = {"status": {"phase": "Running", "containerStatuses": [report]}}
        self._kube.patch("pods", self._namespace, self._name, body, "status")

    def _manifest(self) -> Json:
        container = {"name": CONTAINER, "image": "efrit/operator"}
        # Without a node it goes at once when it is deleted, its namespace too.
        spec = {"containers": [container], "serviceAccountName": self._account}
        return {"metadata": {"name": self._name}, "spec": spec}
