"""The rotation that docs/install.md describes, while work runs; the test mounts Secrets anew, as the kubelet does."""

from __future__ import annotations

import base64
import os
import ssl

import httpx

from tests.cluster import programs
from tests.cluster.progress import run
from tests.integration.docs.pages import blocks_of
from tests.support.kube import Json, until
from tests.support.operator import Operator
from tests.support.site import Site
from tests.support.timeout import TIMEOUT

ITSELF = "tests/integration/controller/test_key_rotation.py"
RUNS = '(progn (while (not (file-exists-p "go")) (sleep-for 0.05)) {})'


def _rotate(site: Site, operator: Operator, text: str) -> None:
    """Run the commands of the page, the restart excepted: no Deployment is here."""
    commands = [line for line in text.splitlines() if "rollout restart" not in line]
    script = "\n".join([f"namespace={site.namespace} secret={operator.identity_secret}", *commands])
    place = programs.program("kubectl").parent
    env = {"KUBECONFIG": str(site.plane.kubeconfig), "PATH": f"{place}:{os.environ['PATH']}"}
    run(["bash", "-euc", script.replace("namespace=efrit-system secret=efrit-operator-identity", "")], env=env)
    operator.stop()
    operator.start()


def _until_written(site: Site, old: Json, names: set[str]) -> Json:
    """Wait until the controller has written the bridge's Secret anew, with these keys."""

    def written() -> Json | None:
        data: Json = site.kube.get("secrets", site.namespace, "efrit-one-bridge")["data"]
        return data if data != old and set(data) == names else None

    return until(written, lambda: f"the Secret is not written anew\n{site.logs()}")


def _is_accepted(site: Site, token: str) -> bool:
    url = f"https://127.0.0.1:{site.node.pod('one').port}/v1/stats"
    bearer = {"Authorization": f"Bearer {base64.b64decode(token).decode()}"}
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    answer = httpx.get(url, headers=bearer, verify=unverified, trust_env=False, timeout=TIMEOUT)
    return answer.status_code == 200


def test_a_new_key_takes_over_while_work_runs_and_the_former_one_is_of_no_use_then(site: Site) -> None:
    begins, ends = (block.text for block in blocks_of("docs/install.md", "install") if block.tested == ITSELF)
    operator = site.operator()
    operator.start()
    site.instance()
    pod, usual = site.node.pod("one"), {"tls.crt", "tls.key", "token", "token-next"}
    running = site.ask(RUNS.format(site.count("once")))
    site.until_status(running, phase="Running")
    former: Json = site.kube.get("secrets", site.namespace, "efrit-one-bridge")["data"]

    # The new key beside the former one: a bridge that was not given the new token and certificate yet is reached.
    _rotate(site, operator, begins)
    both = _until_written(site, former, usual | {"token-previous"})
    site.until_condition("one", "Ready", status="True")
    stopped = site.ask(site.count("never"))
    site.until_status(stopped, phase="Queued")
    # The bridge is given both.
    pod.mount_secret({"data": both})
    until(lambda: _is_accepted(site, both["token"]), lambda: f"the new token is refused\n{site.logs()}")
    assert _is_accepted(site, former["token"])
    # The former key goes.
    _rotate(site, operator, ends)
    pod.mount_secret({"data": _until_written(site, both, usual)})
    until(lambda: not _is_accepted(site, former["token"]), lambda: f"the former token is accepted\n{site.logs()}")

    site.cancel(stopped)
    assert site.answer(stopped)["reason"] == "Cancelled"
    (pod.workspace / "go").touch()
    assert site.answer(running)["result"] == '"once"'
    assert (site.counted(), site.node.pod("one").uid, pod.restarts) == (["once"], pod.uid, 0)
