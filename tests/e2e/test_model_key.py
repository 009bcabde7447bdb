"""The key of the model's API: where it is, where it must not be, and another in its stead.

A request can read the mounted file by design, as the user Emacs runs as; docs/chat.md says so. Nothing else has it.
"""

from __future__ import annotations

import base64
import json
import secrets

import pytest

from tests.e2e.conftest import RELEASE, SYSTEM
from tests.e2e.instance import Instance
from tests.support.kube import Json, Kube, until
from tests.support.kubectl import kubectl
from tests.support.model_service import SECRET as SERVER_SECRET
from tests.support.model_service import ModelService

MOUNT = "/etc/efrit/model"
KEY_FILE = f"{MOUNT}/api-key"
SECRET = "own-key"
OLD, NEW = secrets.token_hex(16), secrets.token_hex(16)
REDACTED = "[API key]"

# Reads a word on standard input and prints what has it: files, and what processes were started with.
FIND = r"""
read -r word
for each in /*; do
  case $each in /proc|/sys) ;; *) grep -rlF -- "$word" "$each" 2>/dev/null;; esac
done
for each in /proc/[0-9]*; do
  for what in environ cmdline; do
    if tr '\0' '\n' 2>/dev/null <"$each/$what" | grep -qF -- "$word"; then echo "$each/$what"; fi
  done
done
"""
# A process that has a word where none may have the key.
DECOY = "a-word-that-is-no-key"
PLANTED = f"DECOY={DECOY} sh -c 'sleep 3600; :' {DECOY} >/dev/null 2>&1 </dev/null &\n"

READ = f'(with-temp-buffer (insert-file-contents "{KEY_FILE}") (message "%s" (buffer-string)) (buffer-string))'
# A model that reads the key by shell and by Lisp, and then speaks until it is cancelled: its curl can be looked at.
NOSY = f"""
[[turn]]
[[turn.reply]]
tool = "todo_add"
input = {{content = "Read the key"}}
[[turn]]
[[turn.reply]]
tool = "shell_exec"
input = {{command = "cat {KEY_FILE}"}}
[[turn.reply]]
tool = "eval_sexp"
input = {{expr = '{READ}'}}
[[turn.reply]]
tool = "file_read"
input = {{path = "{KEY_FILE}"}}
[[turn]]
pace = {{chunk = 5, delay_ms = 100}}
[[turn.reply]]
text = "word "
times = 36000
"""


@pytest.fixture(scope="module")
def model(shared_model: ModelService) -> ModelService:
    shared_model.accept(OLD)
    shared_model.play("nosy", NOSY)
    return shared_model


@pytest.fixture(scope="module")
def instance(kube: Kube, shared_namespace: str, model: ModelService) -> Instance:
    kube.create("Secret", shared_namespace, {"metadata": {"name": SECRET}, "stringData": {"key": OLD}})
    spec = model.spec(apiKeySecretRef={"name": SECRET, "key": "key"})
    return Instance.create(kube, shared_namespace, "keeper", model=spec).wait_ready()


def hello(instance: Instance) -> Json:
    return instance.run("Good day, who are you? (scenario=chat)", type="chat")


def holders(instance: Instance, word: str, before: str = "") -> set[str]:
    """Return what has the word in the Emacs container: files, and processes of the pod."""
    return set(instance.shell(before + FIND, stdin_text=f"{word}\n").split())


def kept_by_the_cluster(kube: Kube, namespace: str) -> str:
    """Return every object and every log about the namespace as one text, without the Secrets that tests have made."""
    objects = [
        item
        for kind in ("EfritInstance", "EfritRequest", "Pod", "StatefulSet", "ConfigMap")
        for item in kube.list(kind, namespace)
    ]
    texts = [json.dumps(objects, ensure_ascii=False), kubectl("get", "events", "-n", namespace, "-o", "json")]
    for secret in kube.list("Secret", namespace):
        if secret["metadata"]["name"] not in (SECRET, SERVER_SECRET):
            texts += [base64.b64decode(value).decode(errors="replace") for value in secret.get("data", {}).values()]
    texts.append(kubectl("logs", "-l", f"app.kubernetes.io/instance={RELEASE}", "-n", SYSTEM, "--tail=-1"))
    return "\n".join(texts)


def test_the_key_is_nowhere_but_in_its_file(instance: Instance, kube: Kube, model: ModelService) -> None:
    read = instance.run(READ, returnContext=True)
    assert REDACTED in read["result"]
    large = instance.run(
        f'(with-temp-buffer (insert (make-string 40000 ?x)) (insert-file-contents "{KEY_FILE}") (buffer-string))'
    )
    assert kube.get("Secret", instance.namespace, large["resultRef"]["secretName"])
    nosy = instance.send("Read it. (scenario=nosy)", type="command")
    uid = nosy.get()["metadata"]["uid"]
    log = f"/var/lib/efrit/queue/progress/{uid}.ndjson"
    until(
        lambda: "word" in instance.shell(f"cat {log} 2>/dev/null || true"),
        lambda: f"the model does not speak: {nosy.status()}\n{instance.diagnostics()}",
    )
    logged = json.dumps(model.log("nosy"))
    assert OLD not in logged
    assert logged.count(REDACTED) >= 3, "the model has not got what it read"
    # While it speaks: the curl that listens to it is among the processes.
    planted = holders(instance, DECOY, PLANTED)
    assert {path.rpartition("/")[2] for path in planted} == {"environ", "cmdline"}, planted
    where = holders(instance, OLD)
    assert len(where) == 1, where
    assert next(iter(where)).startswith(f"{MOUNT}/"), where
    assert "curl" in instance.shell("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    nosy.cancel()
    assert nosy.wait()["reason"] == "Cancelled"
    assert holders(instance, OLD) == where, "it was kept with the answer"
    logs = [
        kubectl("logs", instance.pod_name, "-c", container, "-n", instance.namespace)
        for container in ("emacs", "bridge")
    ]
    everything = "\n".join([kept_by_the_cluster(kube, instance.namespace), *logs])
    assert REDACTED in everything
    assert OLD not in everything


def test_a_key_that_was_replaced_is_used_without_a_restart(
    instance: Instance, kube: Kube, model: ModelService
) -> None:
    assert hello(instance)["reason"] == "Succeeded"
    before = instance.pod_uid()
    model.accept(NEW)
    refused = hello(instance)
    assert (refused["reason"], refused["outcome"]) == ("ModelError", "Failure"), refused
    kube.patch("Secret", instance.namespace, SECRET, {"stringData": {"key": NEW}})
    # The kubelet brings a changed Secret to the pod within a minute or so.
    until(lambda: instance.shell(f"cat {KEY_FILE}").strip() == NEW, "the new key does not reach the pod")
    assert hello(instance)["reason"] == "Succeeded"
    assert instance.pod_uid() == before
