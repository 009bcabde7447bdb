"""What the API server of the bare cluster writes down: each call of the operator's accounts, without its bodies."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.paths import Layout

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts:efrit-system"]}],
}
LARGEST_MB = 500


def log(layout: Layout) -> Path:
    """Return the file with one event a line; there is none for a cluster that was made without it."""
    return layout.data / "audit" / "audit.log"


def write_policy(layout: Layout) -> None:
    """Have the API server keep the log from its next start on."""
    directory = log(layout).parent
    directory.mkdir(mode=0o700)
    (directory / "policy.json").write_text(json.dumps(POLICY))


def flags(layout: Layout) -> tuple[str, ...]:
    """Return the flags of the API server, none where there is no policy."""
    policy = log(layout).parent / "policy.json"
    if not policy.exists():
        return ()
    path = f"--audit-log-path={log(layout)}"
    return (f"--audit-policy-file={policy}", path, f"--audit-log-maxsize={LARGEST_MB}", "--audit-log-maxbackup=1")
