"""watch/handlers.py: the handlers that kopf gets watch, and do nothing else."""

from __future__ import annotations

import kopf
import pytest

from efrit.controller.watch import handlers
from tests.unit.controller.store.world import World

pytestmark = pytest.mark.virtual_time


async def test_only_events_are_handled_so_that_no_object_gets_a_finalizer_or_an_annotation() -> None:
    registry = handlers.registry(World().store)

    assert {handler.id for handler in registry._watching.get_all_handlers()} == {"efritinstances"}
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not registry._indexing.get_all_handlers()


def test_kopf_neither_posts_events_nor_peers_nor_scans() -> None:
    settings = handlers.settings()

    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled


@pytest.mark.parametrize(
    ("environment", "server"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, "https://10.0.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}, "https://[fd00::1]:443"),
        ({}, "https://kubernetes.default.svc"),
    ],
)
def test_kopf_reaches_the_api_server_by_its_address_since_names_may_have_no_answer(
    environment: dict[str, str], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_kopf = kopf.ConnectionInfo(server="https://kubernetes.default.svc", token="secret", ca_path="ca.crt")
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: of_kopf)
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    info = handlers.login_with_service_account()

    assert info is not None
    assert (info.server, info.token, info.ca_path) == (server, "secret", "ca.crt")


def test_outside_of_a_pod_kopf_does_not_log_in_with_a_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: None)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    assert handlers.login_with_service_account() is None
