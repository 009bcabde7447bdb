"""The fixtures of the tests of controller and bridge."""

from tests.integration.conftest import audit_log, control_plane, kube, lisp, plane, pytest_before_forks
from tests.integration.controller.conftest import site

__all__ = ["audit_log", "control_plane", "kube", "lisp", "plane", "pytest_before_forks", "site"]
