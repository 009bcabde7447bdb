"""How to reach the cluster of a kubeconfig, whatever its way to log in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Kubeconfig(NamedTuple):
    """A context of a kubeconfig; of KUBECONFIG as it was when the process began if none is named."""

    kubeconfig: Path | None = None
    context: str | None = None
