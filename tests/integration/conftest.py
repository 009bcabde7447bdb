"""One control plane for the whole test run, one namespace per test."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.model.running import Model, running
from tests.support.custom_resources import new_namespace
from tests.support.failure_logs import captured_logs
from tests.support.fixtures import audit_log, control_plane, kube, lisp, plane, pytest_before_forks
from tests.support.kube import Kube

__all__ = ["audit_log", "control_plane", "kube", "lisp", "plane", "pytest_before_forks"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the file that takes longest, so that no worker is busy with it after the other has ended."""
    items.sort(key=lambda item: item.path.name != "test_changes.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += captured_logs()
    return report


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """Yield a scripted model, for all tests of a module."""
    with running() as made:
        yield made


@pytest.fixture
def namespace(kube: Kube) -> str:
    """Return a namespace for one test."""
    return new_namespace(kube)
