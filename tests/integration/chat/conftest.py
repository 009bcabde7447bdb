"""An instance with a model: bridge and real Emacs as processes, and the server that plays the model's API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.bridge.conftest import lisp
from tests.integration.bridge.rig import Instance
from tests.model.running import KEY, Model, running

__all__ = ["lisp"]

Make = Callable[..., Instance]


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with running() as server:
        yield server


@pytest.fixture
def make(tmp_path: Path, lisp: Path, model: Model) -> Iterator[Make]:
    """Makes instances that ask the model; more of their environment may be given."""
    made: list[Instance] = []
    key = tmp_path / "api-key"
    key.write_text(KEY + "\n")
    model.reset()

    def start(**env: str) -> Instance:
        ours = {
            "EFRIT_MODEL_NAME": "scripted",
            "EFRIT_MODEL_BASE_URL": model.url,
            "EFRIT_MODEL_API_KEY_FILE": str(key),
            "EFRIT_REQUEST_TIMEOUT": "120",
        }
        instance = Instance(tmp_path / f"instance-{len(made)}", lisp, ours | env)
        made.append(instance)
        instance.start_bridge()
        instance.start_emacs()
        return instance

    yield start
    for instance in made:
        instance.stop()
