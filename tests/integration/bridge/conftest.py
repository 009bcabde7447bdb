"""Instances of a bridge and a real Emacs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.bridge_instance import Instance

Make = Callable[..., Instance]


@pytest.fixture
def make(tmp_path: Path, lisp: Path) -> Iterator[Make]:
    made: list[Instance] = []

    def start(**env: str) -> Instance:
        instance = Instance(tmp_path / f"instance-{len(made)}", lisp, env)
        made.append(instance)
        instance.start_bridge()
        instance.start_emacs()
        return instance

    yield start
    for instance in made:
        instance.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, lisp: Path) -> Iterator[Instance]:
    """One instance for all tests of a file that leave it as they found it."""
    with Instance(tmp_path_factory.mktemp("shared") / "instance", lisp) as instance:
        yield instance
