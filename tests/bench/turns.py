"""`python -m tests.bench.turns`: what a turn of a model costs beside the model's own time, and sessions to evals.

No cluster: one bridge and one real Emacs as processes, and the scripted server that plays the model's API. Prints one
table; `make bench` prints it too.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests.bench.quantile import quantile
from tests.model.running import KEY, Model, running
from tests.support.bridge_instance import Instance
from tests.support.command_line import parser
from tests.support.compiled_lisp import compiled_lisp

TURNS = 100
SESSIONS = 10
EVALS = 150
POLL_SECONDS = 0.001
BUSY_TURNS = 1000
"""Of a session beside them: more than there is time for, until it is cancelled."""
WORDS = 200

Row = tuple[str, str, str]

STEP = """
[[turn]]
[[turn.reply]]
tool = "eval_sexp"
input = {{expr = "(+ {number} 1)"}}
"""
PLAN = """
[[turn]]
[[turn.reply]]
tool = "todo_add"
input = {content = "Count"}
"""
END = """
[[turn]]
[[turn.reply]]
tool = "session_complete"
input = {message = "Counted."}
"""
SPEECH = f"""
[[turn]]
pace = {{chunk = 5, delay_ms = 10}}
[[turn.reply]]
text = "word "
times = {WORDS}
"""


def steps(count: int, first_ms: int = 0) -> str:
    """Return a scenario of so many turns that each evaluate something; each begins after FIRST_MS."""
    made = PLAN + "".join(STEP.format(number=number) for number in range(count)) + END
    return made.replace("[[turn]]\n", f"[[turn]]\npace = {{first_ms = {first_ms}}}\n") if first_ms else made


@contextmanager
def instance(place: Path, model: Model) -> Iterator[Instance]:
    """Run an instance that asks MODEL."""
    key = place / "key"
    key.write_text(KEY)
    env = {
        "EFRIT_MODEL_NAME": "scripted",
        "EFRIT_MODEL_BASE_URL": model.url,
        "EFRIT_MODEL_API_KEY_FILE": str(key),
        "EFRIT_CONCURRENCY": str(SESSIONS),
        "EFRIT_MAX_TOOL_CALLS": "10000",
    }
    with Instance(place / "instance", compiled_lisp(place / "lisp"), env) as made:
        yield made


def command(one: Instance, rid: str, scenario: str, kind: str = "command") -> None:
    one.put(rid, f"Go on. (scenario={scenario})", type=kind, options={"timeout": 600}).raise_for_status()


def per_turn(one: Instance, model: Model) -> list[float]:
    """Return the seconds from the end of each answer of the model to its next question."""
    model.play("steps", steps(TURNS))
    command(one, "turns", "steps")
    assert one.answer("turns", 120).reason == "Succeeded"
    calls = sorted(model.log("steps"), key=lambda call: float(call["time"]))
    return [later["time"] - (call["time"] + call["seconds"]) for call, later in itertools.pairwise(calls[1:])]


def streamed(one: Instance, model: Model) -> list[float]:
    """Return the seconds from Emacs' noting a piece of text to its arrival at who follows the work log."""
    model.play("speech", SPEECH)
    command(one, "speech", "speech", "chat")
    delays = []
    with one.client.stream("GET", "/v1/requests/speech/progress", timeout=60) as stream:
        for line in stream.iter_lines():
            if line.startswith("event: end"):
                break
            if line.startswith("data: ") and '"type":"text"' in line:
                noted = datetime.fromisoformat(json.loads(line[6:])["time"]).timestamp()
                delays.append(time.time() - noted)
    return delays


def evals(one: Instance, label: str) -> list[float]:
    """Return the seconds each of many evals took, one after the other."""
    seconds = []
    for number in range(EVALS):
        rid, began = f"{label}-{number}", time.perf_counter()
        one.put(rid, "(+ 1 2)").raise_for_status()
        while one.view(rid).response is None:
            # An instance of the tests is asked less often: what is measured would be that.
            time.sleep(POLL_SECONDS)
        seconds.append(time.perf_counter() - began)
    return seconds


def beside_sessions(one: Instance, model: Model) -> list[float]:
    """Return what evals take while many sessions are under way."""
    model.play("busy", steps(BUSY_TURNS, first_ms=100))
    for number in range(SESSIONS):
        command(one, f"busy-{number}", "busy")
    for number in range(SESSIONS):
        one.until_running(f"busy-{number}")
    timings = evals(one, "beside")
    assert one.view(f"busy-{SESSIONS - 1}").response is None, "the sessions ended before the evals"
    for number in range(SESSIONS):
        one.client.post(f"/v1/requests/busy-{number}/cancel").raise_for_status()
    for number in range(SESSIONS):
        assert one.answer(f"busy-{number}", 300).reason == "Cancelled"
    return timings


def measure() -> list[Row]:
    """Run every measurement."""
    with tempfile.TemporaryDirectory() as place, running() as model, instance(Path(place), model) as one:
        turns = per_turn(one, model)
        pieces = streamed(one, model)
        alone = evals(one, "alone")
        beside = beside_sessions(one, model)
    delay = quantile(beside, 0.95) - quantile(alone, 0.95)
    return [
        (f"overhead per turn of a model, p50 (n={len(turns)})", "<= 25 ms", f"{quantile(turns, 0.5) * 1000:.1f} ms"),
        ("the same, p95", "", f"{quantile(turns, 0.95) * 1000:.1f} ms"),
        (
            f"text from Emacs to the bridge's stream, p50 (n={len(pieces)})",
            "",
            f"{quantile(pieces, 0.5) * 1000:.1f} ms",
        ),
        ("the same, p95", "", f"{quantile(pieces, 0.95) * 1000:.1f} ms"),
        (f"an eval at the bridge, alone, p95 (n={EVALS})", "", f"{quantile(alone, 0.95) * 1000:.1f} ms"),
        (f"the same beside {SESSIONS} sessions", "", f"{quantile(beside, 0.95) * 1000:.1f} ms"),
        ("so they delay it by, p95", "<= 100 ms", f"{delay * 1000:.1f} ms"),
    ]


if __name__ == "__main__":
    parser(__doc__).parse_args()
    for figure, goal, measured in measure():
        print(f"{figure:<60} {goal:<10} {measured}")
