"""A watch that is stopped leaves nothing behind: one is started each time a namespace is served again."""

from __future__ import annotations

import asyncio
import gc
from datetime import UTC, datetime

import kopf
import pytest

from efrit.controller.model.config import ControllerConfig
from efrit.controller.store.store import Store
from efrit.controller.watch import handlers
from efrit.controller.watch.kopf_watch import WATCHER_PREFIX, watch
from efrit.controller.work_queue import WorkQueue
from efrit.errors import ApiForbidden
from tests.support.site import Site
from tests.support.timeout import TIMEOUT


# TLS connections close a moment after their session; here the event loop ends before that.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_watch_that_is_stopped_leaves_no_task_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(site.operator().kubeconfig))
    asyncio.run(_stopped(site))
    collect()


async def _stopped(site: Site) -> None:
    config = ControllerConfig(bridge_image="bridge", emacs_image="emacs")
    site.instance(ready=False)
    before = asyncio.all_tasks()

    for _ in range(3):
        store = Store(WorkQueue(), config, lambda: datetime.now(UTC))
        watching = asyncio.create_task(watch(store, site.namespace, lambda: None))
        async with asyncio.timeout(TIMEOUT):
            while not store.instances.keys():
                assert not watching.done()
                await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

        assert watching.cancelled()
        assert asyncio.all_tasks() == before


def collect() -> None:
    """Collect the connections that outlive the event loop here and not while a later test is warned of them."""
    gc.collect()


def impatient() -> kopf.OperatorSettings:
    """Return the controller's settings, but for the minute in which a refusal is tried again."""
    settings = handlers.settings()
    settings.networking.error_backoffs = (0.1,)
    return settings


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_watch_that_is_refused_leaves_no_task_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(site.operator().kubeconfig))
    for role in site.kube.list("roles", site.namespace):
        rules = [
            {**rule, "resources": [resource for resource in rule["resources"] if resource != "efritinstances"]}
            for rule in role["rules"]
        ]
        rules = [rule for rule in rules if rule["resources"]]
        site.kube.patch("roles", site.namespace, role["metadata"]["name"], {"rules": rules})
    asyncio.run(_refused(site))
    collect()


async def _refused(site: Site) -> None:
    config = ControllerConfig(bridge_image="bridge", emacs_image="emacs")
    before = asyncio.all_tasks()

    store = Store(WorkQueue(), config, lambda: datetime.now(UTC))
    async with asyncio.timeout(TIMEOUT):
        with pytest.raises(ApiForbidden):
            await watch(store, site.namespace, lambda: None, impatient)

    tasks = [task.get_name() for task in asyncio.all_tasks() - before]
    for task in asyncio.all_tasks() - before:
        # Not the tasks that a watch needs for its end: without them it never comes.
        if task.get_name().startswith(WATCHER_PREFIX):
            task.cancel()
            await asyncio.wait([task], timeout=TIMEOUT)
    assert tasks == []
