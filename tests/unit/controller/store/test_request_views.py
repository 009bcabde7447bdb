"""store/request_views.py: how many requests on a queue have no answer yet."""

from __future__ import annotations

from efrit.controller.store.request_views import RequestViews
from efrit.protocol import RequestState
from tests.support.factory import answered, view


def test_requests_without_an_answer_are_counted_however_they_come_and_go() -> None:
    views = RequestViews()
    views["a"] = view("a")
    views["b"] = view("b", RequestState.RUNNING)
    views["c"] = answered("c")
    assert views.unfinished == 2
    views["a"] = view("a", RequestState.RUNNING)
    assert views.unfinished == 2
    views["a"] = answered("a")
    assert views.unfinished == 1
    views.pop("b")
    views.pop("nothing", None)
    assert views.unfinished == 0
    views["d"] = view("d")
    del views["a"]
    assert (views.unfinished, len(views)) == (1, 2)
    views.clear()
    assert (views.unfinished, len(views)) == (0, 0)
