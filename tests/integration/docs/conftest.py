"""The places in which the pages and the notebook are played: those of the tests of the client."""

from tests.integration.client.conftest import in_a_cluster, model, on_this_machine

in_a_namespace_of_its_own = in_a_cluster
"""A second namespace with one instance: pages leave others behind, and then work must name its own."""

__all__ = ["in_a_cluster", "in_a_namespace_of_its_own", "model", "on_this_machine"]
