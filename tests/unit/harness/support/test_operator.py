"""What a test learns of a controller that may end at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.ports import free_port
from tests.support.operator import Operator


class Ending:
    """A process that has ended at the second look. The edge: a process."""

    log = Path("none")

    def __init__(self) -> None:
        self._looks = 0

    @property
    def status(self) -> int | None:
        self._looks += 1
        return None if self._looks == 1 else 1

    def tail(self) -> str:
        return ""


def test_a_controller_that_ends_while_it_is_asked_does_not_lead() -> None:
    operator: Any = Operator.__new__(Operator)
    operator._process, operator._port = Ending(), free_port()
    assert operator.leads() is False
    assert operator.ended
