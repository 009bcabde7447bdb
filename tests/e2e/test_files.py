"""The queue as files: what a foreign client writes is answered, beside a bridge and by a daemon all alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.instance import QUEUE, QUEUE_VOLUME, Instance
from tests.e2e.test_eval import OLDEST
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.timeout import TIMEOUT

LISP = Path(__file__).resolve().parents[2] / "images" / "emacs" / "lisp"

# The oldest form of a request: no version, no timestamp, nobody's name.
REQUEST = {
    "type": "eval",
    "content": "(* 6 7)",
    "options": {"timeout": 30, "return_context": True},
}
BY_RENAME = 'cat >"$1/tmp-$2" && mv "$1/tmp-$2" "$1/requests/efrit_$2.json"'
BY_WRITING = 'cat >"$1/requests/$2.json"'
READ = 'if [ -e "$1/responses/resp_$2.json" ]; then cat "$1/responses/resp_$2.json"; fi'


def check(response: Json, identifier: str) -> None:
    assert (response["id"], response["status"], response["result"]) == (identifier, "success", "42")
    assert response["error"] is None
    assert response["execution_time"] >= 0
    assert response["context"]["buffer_count"] >= 1
    assert response["timestamp"].endswith("Z")


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str) -> Instance:
    return Instance.create(kube, shared_namespace, "shared", **QUEUE_VOLUME).wait_ready()


@pytest.mark.parametrize("way", [BY_RENAME, BY_WRITING], ids=["by-rename", "by-writing"])
def test_a_request_dropped_into_the_queue_by_hand_is_answered_in_a_file(instance: Instance, way: str) -> None:
    identifier = f"hand_{len(way)}"
    instance.shell(way, QUEUE, identifier, stdin_text=json.dumps({"id": identifier, **REQUEST}))
    text = until(lambda: instance.shell(READ, QUEUE, identifier) or None, instance.diagnostics)
    check(json.loads(text), identifier)
    assert instance.value("'still") == "still"


@pytest.mark.parametrize("image", [None, OLDEST], ids=["default", "emacs-28"])
def test_a_daemon_without_operator_and_bridge_answers_files(
    kube: Kube, shared_namespace: str, emacs_image: str, image: str | None
) -> None:
    """Not one environment variable of ours: the queue lies where a person's own Emacs has it."""
    name = "alone-oldest" if image else "alone"
    sources = {path.name: path.read_text() for path in LISP.glob("*.el")}
    kube.create("ConfigMap", shared_namespace, {"metadata": {"name": name}, "data": sources})
    kube.create("Pod", shared_namespace, bare_pod(name, image or emacs_image))
    where = ("-n", shared_namespace, name)

    def shell(script: str, *arguments: str, stdin_text: str | None = None) -> str:
        stdin = ("-i",) if stdin_text is not None else ()
        return kubectl("exec", *stdin, *where, "--", "sh", "-c", script, "sh", *arguments, stdin=stdin_text)

    def diagnostics() -> str:
        return kubectl("describe", "pod", *where, check=False) + kubectl("logs", *where, check=False)

    def response(identifier: str) -> Json:
        read: Json = json.loads(until(lambda: shell(READ, queue, identifier) or None, diagnostics))
        return read

    kubectl("wait", "pod", *where, "--for=condition=Ready", f"--timeout={TIMEOUT:.0f}s")
    queue = "/home/efrit/.local/state/efrit/instances/default/queue"
    until(lambda: shell('[ -d "$1/requests" ] && echo yes || :', queue) or None, diagnostics)
    for way in (BY_RENAME, BY_WRITING):
        identifier = f"efrit_1735939200_{len(way)}"
        shell(way, queue, identifier, stdin_text=json.dumps({"id": identifier, **REQUEST}))
        check(response(identifier), identifier)
    # Nobody is there to interrupt an endless loop but the daemon's own watchdog.
    endless = {"id": "endless", "type": "eval", "content": "(while t)", "options": {"timeout": 1}}
    shell(BY_RENAME, queue, "endless", stdin_text=json.dumps(endless))
    assert response("endless")["status"] == "timeout"
    shell(BY_RENAME, queue, "after", stdin_text=json.dumps({"id": "after", **REQUEST}))
    check(response("after"), "after")
    kube.discard("Pod", shared_namespace, name, gracePeriodSeconds=0)


def bare_pod(name: str, image: str) -> Json:
    """Return a pod that runs the image's Emacs with our Lisp, and nothing else."""
    command = ["emacs", "--fg-daemon", "-Q", "-L", "/lisp", "-l", "efrit-server", "-f", "efrit-server-start"]
    return {
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "emacs",
                    "image": image,
                    "command": command,
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [
                        {"name": "lisp", "mountPath": "/lisp"},
                        {"name": "home", "mountPath": "/home/efrit"},
                    ],
                }
            ],
            "volumes": [{"name": "lisp", "configMap": {"name": name}}, {"name": "home", "emptyDir": {}}],
        },
    }
