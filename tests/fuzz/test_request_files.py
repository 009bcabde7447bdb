"""Files of every kind dropped before a real Emacs: each is answered, archived or ignored, and nobody suffers."""

import contextlib
import itertools
import json
import os
import stat
import time
from pathlib import Path

import psutil
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from efrit.protocol import RequestReason, Response, id_of_request_file
from efrit.queue.archive import MAX_REQUEST_FILE
from efrit.queue.observe import facts_of
from tests.fuzz.litter import Litter, Outside, drop, requests
from tests.support.bridge_instance import Instance, until
from tests.support.timeout import TIMEOUT

BRIDGE_LIMIT_BYTES = 192 << 20
"""What a bridge's container may use."""
_numbers = itertools.count()


def _settled(instance: Instance) -> bool:
    """Whether nothing is left in requests/ and processing/ that Emacs would look at."""
    entries = [entry for entry in os.scandir(instance.queue / "requests") if _looked_at(entry)]
    return not entries and not list((instance.queue / "processing").iterdir())


def _looked_at(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name.startswith(".") or not name.endswith(".json") or name == ".json":
        return False
    try:
        # A directory that nobody may write to cannot be moved either.
        return not entry.is_dir(follow_symlinks=False) or bool(
            entry.stat(follow_symlinks=False).st_mode & stat.S_IWUSR
        )
    except FileNotFoundError:
        # Moved just now: looked at it was.
        return True


def _serves(instance: Instance) -> None:
    """Check that the bridge and the Emacs that were there at first answer a valid request."""
    response = instance.eval(f"probe-{next(_numbers)}", "(* 6 7)")
    assert (response.reason, response.result) == (RequestReason.SUCCEEDED, "42")
    assert instance.bridge is not None
    assert instance.bridge.poll() is None
    assert _bytes_of(instance.bridge.pid) < BRIDGE_LIMIT_BYTES


def _bytes_of(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def _inodes(place: Path) -> set[int]:
    return {entry.inode() for entry in os.scandir(place)}


def _answers_are_sound(instance: Instance) -> None:
    for path in (instance.queue / "responses").glob("resp_*.json"):
        response = Response.parse(path.read_bytes())
        assert path.name == f"resp_{response.id}.json"


def _accounted_for(instance: Instance, name: bytes, data: bytes, inode: int) -> bool:
    """Whether a dropped file lies in the archive, is ignored, or was the same request once more."""
    if inode in _inodes(instance.queue / "archive") | _inodes(instance.queue / "requests"):
        return True
    rid = facts_of(data).id or id_of_request_file(os.fsdecode(name))
    places = (instance.queue / f"{part}/resp_{rid}.json" for part in ("responses", "archive"))
    return rid is not None and any(place.exists() for place in places)


def test_any_batch_of_files_is_settled_and_harms_nobody(instance: Instance, beside: Outside) -> None:
    pid = instance.emacs_pid()

    @given(st.lists(requests, min_size=1, max_size=25))
    @settings(max_examples=6, deadline=None, phases=(Phase.generate,), suppress_health_check=[HealthCheck.too_slow])
    def settled(batch: list[Litter]) -> None:
        inodes = {}
        for item in batch:
            if drop(instance.queue / "requests", item, beside.place):
                path = instance.queue / "requests" / os.fsdecode(item.name)
                # Emacs may have been faster, and may even have put another there.
                with contextlib.suppress(FileNotFoundError):
                    if item.kind == "file":
                        inodes[item.name, item.data] = os.lstat(path).st_ino
        _serves(instance)
        until(lambda: _settled(instance))
        for (name, data), inode in inodes.items():
            assert _accounted_for(instance, name, data, inode), (name, data)
        _answers_are_sound(instance)
        beside.untouched()

    settled()
    assert instance.emacs_pid() == pid


def test_long_files_are_refused_and_cost_the_bridge_no_memory(instance: Instance) -> None:
    assert instance.bridge is not None
    long, many = MAX_REQUEST_FILE // 2, 1 << 20
    contents = {
        "long-string": b'{"id":"long-string","type":"eval","content":"' + b"x" * long + b'"}',
        "long-brackets": b"[" * many + b"]" * many,
        "long-braces": b'{"a":' * (many // 5),
        "long-lists": b'{"id":"long-lists","x":[' + b"[]," * (many // 3) + b"[]]}",
        "long-maps": b'{"id":"long-maps","x":[' + b'{"a":1},' * (many // 8) + b"1]}",
        "long-numbers": b'{"id":"long-numbers","x":[' + b"1," * (many // 2) + b"1]}",
        "long-junk": bytes(10 << 20),
        "utf-16": '{"id":"utf-16","type":"eval","content":"1"}'.encode("utf-16"),
        "empty": b"",
        "deep": b'{"type":"eval","content":"1","options":{"x":' + b"[" * 1000 + b"]" * 1000 + b"}}",
        "deeper": b'{"type":"eval","content":"1","options":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        "digits": b'{"type":"eval","content":"1","options":{"timeout":' + b"9" * 100_000 + b"}}",
        "infinite": b'{"type":"eval","content":"1","options":{"timeout":1e999}}',
        "for-ever": b'{"type":"eval","content":"1","options":{"timeout":1e308}}',
    }
    most = 0
    for name, content in contents.items():
        (instance.queue / f"tmp/{name}").write_bytes(content)
        (instance.queue / f"tmp/{name}").rename(instance.queue / f"requests/req_{name}.json")
    for name in contents:
        path = instance.queue / f"responses/resp_{name}.json"
        until(path.exists)
        assert Response.parse(path.read_bytes()).reason is RequestReason.REJECTED, name
        most = max(most, _bytes_of(instance.bridge.pid))
    until(lambda: _settled(instance))
    _serves(instance)
    print(f"the bridge used {most >> 20} MiB meanwhile, Emacs {_bytes_of(instance.emacs_pid()) >> 20} MiB")
    assert most < BRIDGE_LIMIT_BYTES


def test_a_file_that_grows_slowly_is_run_once_it_is_whole(instance: Instance) -> None:
    text = json.dumps({"id": "slow", "type": "eval", "content": '(concat "wh" "ole")'})
    # However slow the machine, the pauses are shorter than what counts as settled.
    before = instance.eval("patient", f"(prog1 efrit-settle-seconds (setq efrit-settle-seconds {TIMEOUT}))").result
    with (instance.queue / "requests/slow.json").open("w") as growing:
        for piece in (text[:10], text[10:40], text[40:-1], text[-1:]):
            growing.write(piece)
            growing.flush()
            time.sleep(0.4)
    until((instance.queue / "responses/resp_slow.json").exists)
    assert instance.eval("as-before", f"(setq efrit-settle-seconds {before})").result == before
    assert Response.parse((instance.queue / "responses/resp_slow.json").read_bytes()).result == '"whole"'


def test_a_file_that_is_replaced_all_the_time_is_run_once_at_most(instance: Instance) -> None:
    runs = instance.workspace / "replaced"
    target = instance.queue / "requests/req_replaced.json"
    for number in range(300):
        form = f'(write-region "{number}\\n" nil "{runs}" t)'
        part = instance.queue / "tmp/part"
        part.write_text(json.dumps({"id": "replaced", "type": "eval", "content": form}))
        part.replace(target)
    until((instance.queue / "responses/resp_replaced.json").exists)
    until(lambda: _settled(instance))
    assert len(runs.read_text().split()) == 1
    assert (
        Response.parse((instance.queue / "responses/resp_replaced.json").read_bytes()).reason
        is RequestReason.SUCCEEDED
    )


def test_two_files_with_one_id_are_run_once(instance: Instance) -> None:
    runs = instance.workspace / "twice"
    for name in ("one.json", "two.json", "req_twice.json"):
        form = f'(write-region "{name}\\n" nil "{runs}" t)'
        part = instance.queue / f"tmp/{name}"
        part.write_text(json.dumps({"id": "twice", "type": "eval", "content": form}))
        part.rename(instance.queue / f"requests/{name}")
    until((instance.queue / "responses/resp_twice.json").exists)
    until(lambda: _settled(instance))
    assert len(runs.read_text().split()) == 1
    assert len(list((instance.queue / "archive").glob("rejected_twice_*.json"))) == 2


def test_valid_requests_are_answered_among_heaps_of_junk_files(instance: Instance) -> None:
    pid, begun = instance.emacs_pid(), time.monotonic()
    place = instance.place / "junk"
    place.mkdir()
    count = int(os.environ.get("EFRIT_FUZZ_JUNK", "5000"))
    for number in range(count):
        (place / f"junk-{number}.json").write_bytes(b'{"id":' if number % 2 else b"\xff" * (number % 50))
    for path in place.iterdir():
        path.rename(instance.queue / "requests" / path.name)
    dropped = time.monotonic()
    valid = [f"among-{number}" for number in range(10)]
    for name in valid:
        # The junk waits too: while there is more of it than may wait, the bridge asks to be tried again.
        until(lambda: instance.put(name, f'(concat "{name}")').status_code != 429)  # noqa: B023 - called here
    for name in valid:
        assert instance.answer(name).result == f'"{name}"'
    answered = time.monotonic()
    until(lambda: _settled(instance))
    _serves(instance)
    assert instance.emacs_pid() == pid
    assert len(list((instance.queue / "responses").glob("resp_junk-*.json"))) == count
    print(
        f"{count} junk files dropped in {dropped - begun:.1f} s, ten requests answered {answered - dropped:.1f} s "
        f"later, all settled after {time.monotonic() - begun:.1f} s"
    )
