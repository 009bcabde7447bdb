"""The two places in which the pages are played: those of the tests of the client."""

from tests.integration.client.conftest import in_a_cluster, lisp, model, on_this_machine

__all__ = ["in_a_cluster", "lisp", "model", "on_this_machine"]
