"""Fixtures: a fake API server and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kubernetes.aio.client import Configuration

from efrit.kube.client import KubeClient
from tests.unit.controller.fake_api import FakeApi, fake_api


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with fake_api() as (api, _):
        yield api


@pytest.fixture
async def kube(api: FakeApi) -> AsyncIterator[KubeClient]:
    client = KubeClient(Configuration(host=api.url), field_manager="efrit-test")
    yield client
    await client.close()
