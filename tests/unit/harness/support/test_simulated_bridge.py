"""The simulated node ends whole, whoever is still connected to its bridges."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import Any, cast

from tests.support.certificates import make_secrets, trusting
from tests.support.simulated_bridge import SimulatedBridge, SimulatedNode


def test_a_peer_that_never_says_goodbye_leaves_no_connection_open(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path / "secrets")
    secret = {name: base64.b64encode((secrets / name).read_bytes()).decode() for name in ("tls.key", "tls.crt")}
    with SimulatedNode(cast("Any", None)) as node:
        port = node._wait_for(node._listen(SimulatedBridge("ns-a", order=[]), secret))
        # Nobody reads what comes over it, as where a process was stopped.
        connection = socket.create_connection(("127.0.0.1", port))
        peer = trusting(secrets).wrap_socket(connection, server_hostname="127.0.0.1")
    with peer:
        # No public name leads to them.
        transports = list(vars(node._loop)["_transports"].values())
        assert [transport for transport in transports if not transport.is_closing()] == []
