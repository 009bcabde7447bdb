"""The recorded scenarios: together, every step of the protocol.

Each is short, so that its crashes can be tested one by one; what one leaves is on the disk before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.storage.race import EARLY, LONG_JOURNAL, SECONDS, JournalRace
from tests.chaos.storage.recording import (
    GO,
    WAIT,
    Client,
    Recording,
    WatchedInstance,
    counting_form,
    snapshot,
    without_head,
)
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import Action, FileShim

Scenario = Callable[[Client], None]
LARGE = 900_000


def first_request(client: Client) -> None:
    """Submit, answer and acknowledge one request."""
    client.whole("first")


def burst(client: Client) -> None:
    """Submit six requests at once, and acknowledge three."""
    names = [f"burst-{number}" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(client.submit, names))
        list(pool.map(client.report, names))
    for name in names[:3]:
        client.acknowledge(name)


def large_result(client: Client) -> None:
    """Answer a request with a large result."""
    client.whole("large", counting_form("large", f"(make-string {LARGE} ?x)"))


def cancelled(client: Client) -> None:
    """Cancel a request that waits and one that runs."""
    with_go(client, "runs")
    client.submit("waits")
    client.cancel("waits")
    client.report("waits")
    client.cancel("runs")
    client.report("runs")
    client.acknowledge("waits")


def not_run(client: Client) -> None:
    """Submit requests that need no eval, or are not acknowledged."""
    client.submit("status", "", type="status")
    client.report("status")
    client.submit("chat", "hello", type="chat")
    client.report("chat")
    client.submit("dropped")
    client.report("dropped")


def emacs_killed(client: Client) -> None:
    """Kill Emacs while one request runs and one waits."""
    with_go(client, "victim")
    client.submit("behind")
    client.kill_emacs()
    client.report("victim")
    client.report("behind")


def retried(client: Client) -> None:
    """Kill Emacs while a request with a retry policy runs."""
    retry = {"retry": "if-interrupted", "max_attempts": 2}
    form = f'(unless (file-exists-p "tried") (write-region "" nil "tried") {WAIT})'
    client.submit("again", counting_form("again", form), options=retry)
    until((client.instance.workspace / "tried").exists)
    client.kill_emacs()
    client.report("again")


def bridge_killed(client: Client) -> None:
    """Restart the bridge while one request runs and one waits."""
    with_go(client, "through")
    client.submit("after")
    client.restart_bridge()
    (client.instance.workspace / GO).touch()
    client.report("through")
    client.report("after")
    client.acknowledge("through")
    (client.instance.workspace / GO).unlink()


def swept_and_rotated(client: Client) -> None:
    """Empty an archive after two seconds, with a journal long enough for a new one."""
    archive = client.instance.queue / "archive"
    client.whole("old")
    until(lambda: (client.instance.queue / "claims.old").exists())
    client.submit("young")
    client.report("young")
    until(lambda: not list(archive.glob("*_old.json")))
    client.whole("last")


def with_go(client: Client, rid: str) -> None:
    """Submit a request that runs until the `go` file exists."""
    client.submit(rid, counting_form(rid, WAIT), options={"timeout": 3600})
    client.instance.until_running(rid)
    counter = client.instance.workspace / "counter"
    until(lambda: rid in counter.read_text().split())


SCENARIOS: tuple[Scenario, ...] = (
    first_request,
    burst,
    large_result,
    cancelled,
    not_run,
    emacs_killed,
    retried,
    bridge_killed,
)
SHORT_LIVED: tuple[Scenario, ...] = (swept_and_rotated,)
CLAIMED = "claimed_while_journals_are_exchanged"
NAMES = (*(function.__name__ for function in (*SCENARIOS, *SHORT_LIVED)), CLAIMED)


def record_all(directory: Path, lisp: Path) -> dict[str, Recording]:
    """Record every scenario. Those that need a short-lived archive run on an instance of their own."""
    made = [
        *_record(directory / "plain", lisp, SCENARIOS, {}),
        *_record(directory / "short", lisp, SHORT_LIVED, {"EFRIT_ARCHIVE_SECONDS": "2"}, journal=LONG_JOURNAL),
    ]
    made.append(_record_race(directory / "race", lisp))
    return {recording.name: recording for recording in made}


def _record_race(directory: Path, lisp: Path) -> Recording:
    """Record an Emacs that claims in a new journal which the bridge has not synced yet.

    Another request was begun when the journal before was written.
    """
    race = JournalRace(directory, lisp)
    one = race.instance
    roots = (one.volume, one.workspace)
    try:
        start = snapshot(*roots)
        race.start_stopping_at("rename", "claims.log", Action.STOP_AFTER)
        race.drop("late", counting_form("late", WAIT))
        until(lambda: race.begun("late"), SECONDS)
        recording = Recording(CLAIMED, one.place, start, race.shim.operations(), begun_before=(EARLY,))
    finally:
        race.end()
    return without_head(recording, one.queue / "claims.log", len(LONG_JOURNAL))


def _record(
    directory: Path, lisp: Path, scenarios: tuple[Scenario, ...], env: dict[str, str], *, journal: bytes | None = None
) -> Iterator[Recording]:
    """Run scenarios on one instance, and yield the recording of each."""
    place = directory / "instance"
    roots = (place / "volume", place / "workspace")
    shim = FileShim(directory / "chaos", *roots)
    instance = WatchedInstance(place, lisp, {**shim.environment, "EFRIT_HEARTBEAT_SECONDS": "5", **env})
    client = Client(instance, shim)
    instance.volume.mkdir()
    if journal is not None:
        instance.queue.mkdir(mode=0o700)
        (instance.queue / "claims.log").write_bytes(journal)
    with shim.still():
        start, since = snapshot(*roots), shim.size
    try:
        instance.start_bridge()
        instance.start_emacs()
        for scenario in scenarios:
            shim.mark(f"queue {instance.stats().queue_id}")
            scenario(client)
            with shim.still():
                tree, until_now = snapshot(*roots), shim.size
            recording = Recording(scenario.__name__, place, start, shim.operations(since, until_now))
            if journal is not None:
                recording = without_head(recording, instance.queue / "claims.log", len(journal))
            yield recording
            start, since = tree, until_now
    finally:
        instance.stop()
