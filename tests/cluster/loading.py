"""Which image archives a cluster has already been given, so that `load` brings only what changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Loaded:
    """A note kept beside the cluster: image name -> file name of the archive (which names its content)."""

    record: Path

    def missing(self, archives: dict[str, Path]) -> list[tuple[str, Path]]:
        """Return the images that are not there, or there with other content."""
        loaded = self._read()
        return [(name, path) for name, path in sorted(archives.items()) if loaded.get(name) != path.name]

    def note(self, name: str, archive: Path) -> None:
        """Remember that this archive has been brought in."""
        self.record.write_text(json.dumps({**self._read(), name: archive.name}, indent=1))

    def _read(self) -> dict[str, str]:
        try:
            loaded = json.loads(self.record.read_text())
        except (OSError, ValueError):
            return {}
        return loaded if isinstance(loaded, dict) else {}
