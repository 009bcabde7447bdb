"""The metrics of the bridge: what is counted, and that it is served beside the probes."""

import json
from datetime import UTC, datetime, timedelta

from efrit.bridge.metrics import Metrics
from efrit.protocol import RequestState, Response, request_id
from efrit.protocol.view import EmacsStats, RequestView, Stats
from tests.unit.bridge.conftest import Served

NOW = datetime(2026, 1, 3, tzinfo=UTC)


def answered(reason: str, **fields: object) -> RequestView:
    response = {"id": "a", "status": "error", "reason": reason, "outcome": "Failure", "execution_time": 0.3}
    return RequestView(
        id=request_id("a"),
        state=RequestState.ANSWERED,
        queued_time=NOW,
        response=Response.parse(json.dumps({**response, **fields})),
    )


def test_answers_are_counted_by_reason_and_timed_when_they_ran() -> None:
    metrics = Metrics()
    metrics.changed(answered("Cancelled"))
    metrics.changed(answered("TimedOut", started=(NOW + timedelta(seconds=2)).isoformat()))
    metrics.changed(RequestView(id=request_id("b"), state=RequestState.QUEUED))
    metrics.signalled("SIGUSR2")
    metrics.restarted()
    stats = Stats(queue_id="q", pending=3, processing=1, unacknowledged=2)
    text = metrics.render(stats).decode().splitlines()
    for line in (
        'efrit_queue_requests{state="queued"} 3.0',
        'efrit_queue_requests{state="running"} 1.0',
        'efrit_queue_requests{state="answered"} 2.0',
        'efrit_queue_processed_total{reason="Cancelled"} 1.0',
        'efrit_queue_processed_total{reason="TimedOut"} 1.0',
        'efrit_queue_processed_total{reason="Succeeded"} 0.0',
        "efrit_queue_execution_seconds_count 1.0",
        "efrit_queue_wait_seconds_sum 2.0",
        "efrit_emacs_up 0.0",
        "efrit_emacs_restarts_total 1.0",
        'efrit_emacs_interrupts_total{signal="SIGUSR2"} 1.0',
    ):
        assert line in text


def test_what_the_model_cost_is_counted_with_the_answer() -> None:
    metrics = Metrics()
    usage = {"input_tokens": 5, "output_tokens": 7, "cache_read_tokens": 3, "model_calls": 2}
    for errors in ({"529": 2, "cut": 1}, {"529": 1, "made-up": 1, "1234": 1}):
        metrics.changed(answered("ModelError", usage={**usage, "model_errors": errors}))
    stats = Stats(queue_id="q", emacs=EmacsStats(sessions=3))
    text = metrics.render(stats).decode().splitlines()
    for line in (
        'efrit_model_tokens_total{direction="input"} 10.0',
        'efrit_model_tokens_total{direction="output"} 14.0',
        'efrit_model_tokens_total{direction="cache_read"} 6.0',
        'efrit_model_tokens_total{direction="cache_write"} 0.0',
        "efrit_model_calls_total 4.0",
        'efrit_model_errors_total{kind="529"} 3.0',
        'efrit_model_errors_total{kind="cut"} 1.0',
        'efrit_model_errors_total{kind="other"} 2.0',
        "efrit_emacs_sessions 3.0",
    ):
        assert line in text


async def test_metrics_and_probes_are_served(served: Served) -> None:
    metrics = await served.client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "efrit_queue_requests" in metrics.text
    assert (await served.client.get("/healthz")).status_code == 200
    assert (await served.client.get("/readyz")).status_code == 503


async def test_figures_can_be_reported_before_the_queue_has_its_name(served: Served) -> None:
    served.bridge.queue.queue_id = ""
    assert served.bridge.metrics()
    assert Stats.parse(served.bridge.stats().to_json()).queue_id == ""
