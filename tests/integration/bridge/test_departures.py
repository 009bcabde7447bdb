"""A bridge that is asked to stop with its pod: what is on an ephemeral queue is delivered before."""

import json
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from efrit.protocol import RequestReason, RequestState
from tests.integration.bridge.conftest import Make
from tests.support.bridge_instance import Instance, until
from tests.support.timeout import TIMEOUT

EPHEMERAL = {"EFRIT_EPHEMERAL_QUEUE": "1"}


def end_emacs(instance: Instance) -> None:
    assert instance.emacs is not None
    instance.emacs.send_signal(signal.SIGTERM)
    assert instance.emacs.wait(TIMEOUT) == 0
    until(lambda: not instance.stats().emacs.alive)


def tell_bridge(instance: Instance, number: signal.Signals = signal.SIGTERM) -> None:
    assert instance.bridge is not None
    instance.bridge.send_signal(number)


def has_ended(instance: Instance) -> bool:
    assert instance.bridge is not None
    return instance.bridge.wait(TIMEOUT) == 0


@contextmanager
def reader(instance: Instance) -> Iterator["queue.Queue[dict[str, Any]]"]:
    """Follow the events as a controller does; yield the events of requests."""
    events: queue.Queue[dict[str, Any]] = queue.Queue()

    def follow() -> None:
        for _, name, data in instance.events():
            if name in ("request", "reset"):
                events.put(data)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert "epoch" in events.get(timeout=TIMEOUT)
    yield events
    thread.join(TIMEOUT)


def until_nothing_is_taken(instance: Instance) -> None:
    """Wait until requests are refused; one that came before that is given back, and acknowledged."""

    def is_refused() -> bool:
        answer = instance.put("late", "1")
        return answer.status_code == 503 and json.loads(answer.content)["error"]["code"] == "NotReady"

    until(is_refused)
    until(lambda: instance.client.delete("/v1/requests/late").status_code in (204, 404))


def test_an_answer_is_delivered_before_the_bridge_ends(make: Make) -> None:
    instance = make(**EPHEMERAL)
    with reader(instance):
        assert instance.eval("one", "(+ 1 1)").result == "2"
        end_emacs(instance)
        tell_bridge(instance)
        until_nothing_is_taken(instance)

        assert instance.answer("one").result == "2"
        assert instance.client.delete("/v1/requests/one").status_code == 204

        assert has_ended(instance)


def test_an_answer_that_the_bridge_has_not_seen_when_it_is_asked_to_stop_is_delivered(make: Make) -> None:
    instance = make(**EPHEMERAL)
    gate = instance.place / "go"
    with reader(instance) as events:
        instance.put("one", f'(progn (while (not (file-exists-p "{gate}")) (sleep-for 0.02)) 2)')
        instance.until_running("one")
        tell_bridge(instance, signal.SIGSTOP)
        gate.touch()
        assert instance.emacs is not None
        instance.emacs.send_signal(signal.SIGTERM)
        assert instance.emacs.wait(TIMEOUT) == 0
        tell_bridge(instance)
        tell_bridge(instance, signal.SIGCONT)

        view = events.get(timeout=TIMEOUT)
        while view["state"] != "answered":
            view = events.get(timeout=TIMEOUT)
        assert view["response"]["result"] == "2"
        assert instance.client.delete("/v1/requests/one").status_code == 204

        assert has_ended(instance)


def test_what_came_after_emacs_had_found_the_queue_empty_is_given_back(make: Make) -> None:
    instance = make(**EPHEMERAL)
    with reader(instance) as events:
        end_emacs(instance)
        assert instance.put("one", "(+ 1 1)").status_code == 201
        assert events.get(timeout=TIMEOUT)["state"] == "queued"
        tell_bridge(instance)

        view = events.get(timeout=TIMEOUT)
        assert (view["state"], view["response"]["error_code"]) == ("answered", "NotBegun")
        until_nothing_is_taken(instance)
        assert not list((instance.queue / "requests").iterdir())
        assert instance.client.delete("/v1/requests/one").status_code == 204

        assert has_ended(instance)


def test_signalled_twice_the_bridge_ends_at_once(make: Make) -> None:
    instance = make(**EPHEMERAL)
    with reader(instance):
        instance.eval("one", "1")
        end_emacs(instance)
        tell_bridge(instance)
        until_nothing_is_taken(instance)
        tell_bridge(instance)
        assert has_ended(instance)


@pytest.mark.parametrize("ephemeral", [True, False], ids=["while Emacs lives on", "whose queue outlives the pod"])
def test_a_bridge_that_is_started_anew_ends_at_once_and_its_queue_keeps_all(make: Make, ephemeral: bool) -> None:
    instance = make(**(EPHEMERAL if ephemeral else {}))
    with reader(instance):
        instance.eval("one", "1")
        if not ephemeral:
            end_emacs(instance)
        tell_bridge(instance)
        assert has_ended(instance)
    instance.start_bridge()
    view = instance.view("one")
    assert (view.state, instance.answer("one").reason) == (RequestState.ANSWERED, RequestReason.SUCCEEDED)
