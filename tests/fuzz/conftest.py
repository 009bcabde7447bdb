"""One instance (a bridge and a real Emacs) for all tests here, its processes bound by file modes as in a pod."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.litter import Outside, outside
from tests.support.bridge_instance import Instance
from tests.support.compiled_lisp import compiled_lisp
from tests.support.file_modes import ORDINARY


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    place = tmp_path_factory.mktemp("fuzzed")
    with Instance(place / "instance", compiled_lisp(place / "lisp"), wrap=ORDINARY) as one:
        yield one


@pytest.fixture
def beside(instance: Instance, tmp_path: Path) -> Iterator[Outside]:
    """Yield a directory outside the queue, on the same volume."""
    with outside(tmp_path / "outside") as place:
        yield place
