"""What a test is told of a node that does not come to work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from efrit.errors import ConfigurationError
from tests.support.node import Node


class Unreachable:
    """A control plane whose kubeconfig is gone. The edge: files."""

    context = None

    def __init__(self, directory: Path) -> None:
        self.kubeconfig = directory / "none"


def test_a_node_that_cannot_start_says_why_at_once(tmp_path: Path) -> None:
    plane: Any = Unreachable(tmp_path)
    node = Node(plane, "team", tmp_path, tmp_path)
    with pytest.raises(ConfigurationError, match="there is no kubeconfig"):
        node.start()
