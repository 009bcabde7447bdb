"""The cluster as the end-to-end tests reach it: the API server as JSON, kubectl and helm as a person has them.

`kubectl proxy` carries the connection, so that any kubeconfig will do, whatever its way to log in.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx

from efrit.kube.media_types import JSON, MERGE_PATCH
from efrit.resources import resource_named
from tests.support.plain_http import NO_TLS
from tests.support.timeout import TIMEOUT, poll_interval

Json = dict[str, Any]
T = TypeVar("T")


class RefusedError(Exception):
    """The API server answered with an error status; the text is its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Kube:
    """One connection to the cluster."""

    def __init__(self) -> None:
        self._proxy = subprocess.Popen(
            ["kubectl", "proxy", "--port=0", "--keepalive=30s"], stdout=subprocess.PIPE, text=True
        )
        assert self._proxy.stdout is not None
        line = self._proxy.stdout.readline()
        assert "127.0.0.1:" in line, f"kubectl proxy does not start: {line!r}"
        self._client = httpx.Client(
            base_url=f"http://{line.split()[-1]}", timeout=TIMEOUT, trust_env=False, verify=NO_TLS
        )

    def close(self) -> None:
        self._client.close()
        self._proxy.terminate()
        self._proxy.communicate(timeout=TIMEOUT)

    def text(self, method: str, path: str, body: object = None, *, kind: str = JSON, **query: str) -> str:
        """Call it; a body that is text goes as it is."""
        content = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": kind} if content is not None else {}
        response = self._client.request(method, path, content=content, headers=headers, params=query)
        if response.status_code >= 400:
            try:
                message = str(response.json().get("message", response.text))
            except ValueError:
                message = response.text
            raise RefusedError(response.status_code, message)
        return response.text

    def call(self, method: str, path: str, body: object = None, *, kind: str = JSON, **query: str) -> Json:
        content: Json = json.loads(self.text(method, path, body, kind=kind, **query))
        return content

    def follow(self, kind: str, namespace: str, **query: str) -> Iterator[Json]:
        """Yield the events of a watch, from the objects that are there on, as long as it lasts."""
        params = {"watch": "1", **query}
        with self._client.stream("GET", self.path(kind, namespace), params=params, timeout=None) as response:
            for event in map(json.loads, response.iter_lines()):
                if event["type"] == "ERROR":
                    return  # Of a watch that fell behind; whoever needs more begins another.
                yield event

    def wait(
        self,
        kind: str,
        namespace: str,
        name: str,
        probe: Callable[[Json], T | None],
        diagnostics: Callable[[], str],
        seconds: float = TIMEOUT,
    ) -> T:
        """Return the first that `probe` makes of the object and is neither None nor False.

        A watch tells of each change, at less cost than polls. AssertionError with the diagnostics after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            query = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": str(math.ceil(left))}
            for event in self.follow(kind, namespace, **query):
                value = probe(event["object"])
                if value is not None and value is not False:
                    return value
        raise AssertionError(f"after {seconds:.0f} s: {diagnostics()}")

    @staticmethod
    def path(kind: str, namespace: str | None, name: str = "", sub: str = "") -> str:
        return resource_named(kind).path(namespace, name, sub)

    def create(self, kind: str, namespace: str | None, manifest: Json) -> Json:
        version = resource_named(kind).api_version
        return self.call("POST", self.path(kind, namespace), {"apiVersion": version, "kind": kind, **manifest})

    def get(self, kind: str, namespace: str | None, name: str) -> Json:
        return self.call("GET", self.path(kind, namespace, name))

    def find(self, kind: str, namespace: str | None, name: str) -> Json | None:
        """Return the object, or None where there is none."""
        try:
            return self.get(kind, namespace, name)
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None, **query: str) -> list[Json]:
        items: list[Json] = self.call("GET", self.path(kind, namespace), **query)["items"]
        return items

    def patch(self, kind: str, namespace: str | None, name: str, body: Json) -> Json:
        return self.call("PATCH", self.path(kind, namespace, name), body, kind=MERGE_PATCH)

    def delete(self, kind: str, namespace: str | None, name: str, **options: object) -> None:
        """Delete an object; one that is gone already is fine."""
        try:
            self.call("DELETE", self.path(kind, namespace, name), options or None)
        except RefusedError as error:
            if error.status != 404:
                raise


def run(*command: str, stdin: str | None = None, check: bool = True) -> str:
    """Run a program of the cluster's and return what it printed; its complaints become the test's."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    return run("kubectl", *arguments, stdin=stdin, check=check)


def worked(act: Callable[[], object]) -> bool:
    """Do it and return whether it worked, for `until`: a container may not be there yet, or not any more."""
    try:
        act()
    except AssertionError:
        return False
    return True


def until(probe: Callable[[], T | None], what: str | Callable[[], str], seconds: float = TIMEOUT) -> T:
    """Return the first value that is neither None nor False; AssertionError that tells `what` after `seconds`."""
    began = time.monotonic()
    while True:
        value = probe()
        if value is not None and value is not False:
            return value
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"after {seconds:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(poll_interval(waited))
