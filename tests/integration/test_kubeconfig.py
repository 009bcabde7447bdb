"""The tests' own client by a kubeconfig: certificates log it in, and a watch ends when somebody says so."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

from tests.cluster.control_plane import ControlPlane
from tests.support.kube import Json, Kube
from tests.support.kubeconfig import Kubeconfig
from tests.support.timeout import TIMEOUT


def test_a_kubeconfig_leads_to_the_api_server_and_a_watch_of_another_thread_is_ended(
    plane: ControlPlane,
) -> None:
    seen: list[Json] = []
    follows = threading.Event()
    with closing(Kube(Kubeconfig(plane.kubeconfig))) as kube:
        assert kube.read("GET", "/readyz", accept="text/plain") == b"ok"
        assert kube.get("Namespace", None, "default")["metadata"]["name"] == "default"

        def follow() -> None:
            for event in events:
                seen.append(event)
                follows.set()

        with kube.events("Namespace", None, seconds=None, fieldSelector="metadata.name=default") as events:
            thread = threading.Thread(target=follow)
            thread.start()
            assert follows.wait(TIMEOUT)
            events.end()
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        events.end()
    assert [event["type"] for event in seen] == ["ADDED"]


def test_a_token_of_a_kubeconfig_logs_in(plane: ControlPlane, tmp_path: Path) -> None:
    document = json.loads(plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": plane.authority.token()}
    (tmp_path / "config").write_text(json.dumps(document))
    with closing(Kube(Kubeconfig(tmp_path / "config"))) as kube:
        assert kube.get("Namespace", None, "default")["metadata"]["name"] == "default"
