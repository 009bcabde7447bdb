"""A machine with Emacs and nothing else, for tests of the client there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.model.running import KEY, Model
from tests.scratch import owned_directory, remove
from tests.support.efrit_program import Program
from tests.support.local_daemons import HOMES, end_daemons

WORLD = ("PATH", "LANG", "COVERAGE_PROCESS_START", "XDG_CACHE_HOME")


@contextmanager
def laptop(instances: dict[str, dict[str, object]], **env: str) -> Iterator[Program]:
    """Yield a machine with Emacs and nothing else: a home of its own, all daemons ended at the end."""
    # Sockets have short names: the temporary directories of the test run are too deep.
    home = owned_directory("home")
    HOMES.append(home)
    config = home / "config.json"
    config.write_text(json.dumps({"instances": instances, "polling_interval_ms": 100}))
    whole = {name: os.environ[name] for name in WORLD if name in os.environ}
    whole |= {"HOME": str(home), "TMPDIR": str(home), "EFRIT_CONFIG": str(config), **env}
    # Work begins where the program is run.
    made = Program("local", whole, workspace=lambda name: home, cwd=home)
    try:
        yield made
    finally:
        end_daemons(home)
        remove(home)


def model_environment(model: Model, directory: Path) -> dict[str, str]:
    """Return what a daemon must find in its environment to have the test's model."""
    (directory / "key").write_text(f"{KEY}\n")
    return {
        "EFRIT_MODEL_NAME": "m",
        "EFRIT_MODEL_BASE_URL": model.url,
        "EFRIT_MODEL_API_KEY_FILE": str(directory / "key"),
    }
