"""The recorded workloads: together, every step of the protocol.

Each is short, so that its crashes can be looked at one by one; what one leaves is on the disk before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.storage.race import EARLY, LONG_JOURNAL, SECONDS, Race
from tests.chaos.storage.recording import (
    GO,
    WAIT,
    Client,
    Recording,
    WatchedInstance,
    counting,
    snapshot,
    without_head,
)
from tests.support.bridge_instance import until
from tests.support.faults.file_shim.shim import Action, FileShim

Scenario = Callable[[Client], None]
LARGE = 900_000


def first_request(client: Client) -> None:
    client.whole("first")


def burst(client: Client) -> None:
    names = [f"burst-{number}" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(client.submit, names))
        list(pool.map(client.report, names))
    for name in names[:3]:
        client.acknowledge(name)


def large_result(client: Client) -> None:
    client.whole("large", counting("large", f"(make-string {LARGE} ?x)"))


def cancelled(client: Client) -> None:
    with_go(client, "runs")
    client.submit("waits")
    client.cancel("waits")
    client.report("waits")
    client.cancel("runs")
    client.report("runs")
    client.acknowledge("waits")


def not_run(client: Client) -> None:
    client.submit("status", "", type="status")
    client.report("status")
    client.submit("chat", "hello", type="chat")
    client.report("chat")
    client.submit("dropped")
    client.report("dropped")


def emacs_killed(client: Client) -> None:
    with_go(client, "victim")
    client.submit("behind")
    client.kill_emacs()
    client.report("victim")
    client.report("behind")


def retried(client: Client) -> None:
    retry = {"retry": "if-interrupted", "max_attempts": 2}
    form = f'(unless (file-exists-p "tried") (write-region "" nil "tried") {WAIT})'
    client.submit("again", counting("again", form), options=retry)
    until((client.instance.workspace / "tried").exists)
    client.kill_emacs()
    client.report("again")


def bridge_killed(client: Client) -> None:
    with_go(client, "through")
    client.submit("after")
    client.restart_bridge()
    (client.instance.workspace / GO).touch()
    client.report("through")
    client.report("after")
    client.acknowledge("through")
    (client.instance.workspace / GO).unlink()


def swept_and_rotated(client: Client) -> None:
    """On a queue whose archive is emptied after two seconds, with a journal long enough for a new one."""
    archive = client.instance.queue / "archive"
    client.whole("old")
    until(lambda: (client.instance.queue / "claims.old").exists(), 30)
    client.submit("young")
    client.report("young")
    until(lambda: not list(archive.glob("*_old.json")), 30)
    client.whole("last")


def with_go(client: Client, rid: str) -> None:
    """A request that runs until it is told to go on."""
    client.submit(rid, counting(rid, WAIT), options={"timeout": 60})
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
NAMES = (*(each.__name__ for each in (*SCENARIOS, *SHORT_LIVED)), CLAIMED)


def record_all(directory: Path, lisp: Path) -> dict[str, Recording]:
    """Every scenario, recorded. Those that need a short-lived archive run on an instance of their own."""
    made = [
        *_record(directory / "plain", lisp, SCENARIOS, {}),
        *_record(directory / "short", lisp, SHORT_LIVED, {"EFRIT_ARCHIVE_SECONDS": "2"}, journal=LONG_JOURNAL),
    ]
    made.append(_record_race(directory / "race", lisp))
    return {each.name: each for each in made}


def _record_race(directory: Path, lisp: Path) -> Recording:
    """The bridge has exchanged the journals and not synced them; Emacs claims in the new one, and runs.

    Another request was begun when the journal before was written.
    """
    race = Race(directory, lisp)
    one = race.instance
    roots = (one.volume, one.workspace)
    try:
        start = snapshot(*roots)
        race.start_stopping_at("rename", "claims.log", Action.STOP_AFTER)
        race.drop("late", counting("late", WAIT))
        until(lambda: race.begun("late"), SECONDS)
        recording = Recording(CLAIMED, one.place, start, race.recorder.operations(), begun_before=(EARLY,))
    finally:
        race.end()
    return without_head(recording, one.queue / "claims.log", len(LONG_JOURNAL))


def _record(
    directory: Path, lisp: Path, scenarios: tuple[Scenario, ...], env: dict[str, str], *, journal: bytes | None = None
) -> Iterator[Recording]:
    """Runs scenarios on one instance and hands out what was recorded of each."""
    place = directory / "instance"
    roots = (place / "volume", place / "workspace")
    recorder = FileShim(directory / "chaos", *roots)
    instance = WatchedInstance(place, lisp, {**recorder.environment, "EFRIT_HEARTBEAT_SECONDS": "5", **env})
    client = Client(instance, recorder)
    instance.volume.mkdir()
    if journal is not None:
        instance.queue.mkdir(mode=0o700)
        (instance.queue / "claims.log").write_bytes(journal)
    with recorder.still():
        start, since = snapshot(*roots), recorder.size
    try:
        instance.start_bridge()
        instance.start_emacs()
        for scenario in scenarios:
            recorder.mark(f"queue {instance.stats().queue_id}")
            scenario(client)
            with recorder.still():
                tree, until_now = snapshot(*roots), recorder.size
            recording = Recording(scenario.__name__, place, start, recorder.operations(since, until_now))
            if journal is not None:
                recording = without_head(recording, instance.queue / "claims.log", len(journal))
            yield recording
            start, since = tree, until_now
    finally:
        instance.stop()
