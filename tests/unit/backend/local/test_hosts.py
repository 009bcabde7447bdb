"""A queue that other hosts serve, too: whose it is, and what each command says of that. No Emacs, no second host."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from efrit.backend.errors import NotReady, Refused, RequestNotFound
from efrit.backend.interface import (
    Handle,
    InstanceStatus,
    Phase,
    RequestReason,
    RequestState,
    StartStatus,
    StopStatus,
    Work,
)
from efrit.backend.local import mounts, supervise
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.daemon import Daemon
from efrit.backend.local.doctor import examine
from efrit.backend.local.hosts import RemoteEmacs, remote_emacs
from efrit.backend.local.mounts import Mount, mount_of, takeover_seconds
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.settings import LocalInstance, LocalSettings
from efrit.protocol import from_epoch, rfc3339
from efrit.protocol.enums import RequestType
from efrit.protocol.process_place import ProcessPlace
from efrit.queue.process_place import here

HERE = ProcessPlace(host="here", boot_id="boot", pid_namespace="pid:[2]")
OTHER = {"host": "other", "boot_id": "other", "pid_namespace": "pid:[1]", "process_start": 5, "state": "serving"}


def beat(server: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    own = {"host": "here", "boot_id": "boot", "pid_namespace": "pid:[2]", "process_start": 5, "state": "serving"}
    return {"pid": 1, "server": {**own, **(server or {})}, **members}


@pytest.mark.parametrize(
    ("heartbeat", "remote", "takeover_after"),
    [
        pytest.param({}, True, None, id="nothing"),
        pytest.param({"pid": 1}, True, None, id="an earlier version"),
        pytest.param(beat(), True, None, id="here"),
        pytest.param(beat({"host": "renamed"}), True, None, id="here, and renamed"),
        pytest.param(beat({"pid_namespace": "pid:[1]"}), False, 90.0, id="another PID namespace"),
        pytest.param(beat(OTHER), True, 90.0, id="another host"),
        pytest.param(beat({**OTHER, "state": "starting"}), True, 90.0, id="another host that begins"),
        pytest.param(beat({**OTHER, "state": "ended"}), True, None, id="another host that has ended"),
        pytest.param(beat(OTHER), False, None, id="this host before it was booted"),
        pytest.param(beat(OTHER, current="one", timeout=600), True, 690.0, id="another host that evaluates"),
        pytest.param(beat(OTHER, current=None, timeout=600), True, 90.0, id="another host that is idle"),
        pytest.param(beat({"boot_id": None, "host": "other"}), True, 90.0, id="no boot id, another name"),
        pytest.param(beat({"boot_id": None}), True, None, id="no boot id, the same name"),
    ],
)
def test_whose_the_queue_is_says_the_heartbeat(
    heartbeat: dict[str, Any], remote: bool, takeover_after: float | None
) -> None:
    daemon = remote_emacs(heartbeat, lambda: 89.0, 90.0, remote=remote, place=HERE)
    assert (daemon.takeover_after if daemon else None) == takeover_after


def test_it_is_another_hosts_until_that_was_silent_for_too_long() -> None:
    assert [RemoteEmacs("other", silent, 90.0).serves for silent in (0.0, 89.9, 90.0, 1e9)] == [
        True,
        True,
        False,
        False,
    ]


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 21 0:40 / /mnt/team rw,relatime shared:2 - nfs4 server:/team rw,vers=4.2,acregmax=120,acdirmax=30
41 40 0:41 / /mnt/team/own rw - tmpfs tmpfs rw
42 21 0:42 / /mnt/no\\040cto rw - nfs server:/x rw,vers=3,nocto
43 21 0:43 / /mnt/bucket rw - fuse.s3fs s3fs rw,user_id=0
44 21 0:44 / /mnt/aws rw - fuse mountpoint-s3 rw
45 21 0:45 / /mnt/ssh rw - fuse.sshfs host:/ rw
46 21 0:46 / /mnt/twice rw - tmpfs tmpfs rw
47 46 0:47 / /mnt/twice rw - nfs4 server:/twice rw,actimeo=3
nothing of the kind
"""


@pytest.mark.parametrize(
    ("path", "kind", "remote", "refused", "warned", "seconds"),
    [
        ("/home/queue", "ext4", False, False, False, 90.0),
        ("/mnt/teams/queue", "ext4", False, False, False, 90.0),
        ("/mnt/team/queue", "nfs4", True, False, False, 150.0),
        ("/mnt/team", "nfs4", True, False, False, 150.0),
        ("/mnt/team/own/queue", "tmpfs", False, False, False, 90.0),
        ("/mnt/no cto/queue", "nfs", True, False, True, 90.0),
        ("/mnt/bucket/queue", "fuse.s3fs", True, True, False, 90.0),
        ("/mnt/aws/queue", "fuse", True, True, True, 90.0),
        ("/mnt/ssh/queue", "fuse.sshfs", True, False, True, 90.0),
        ("/mnt/twice/queue", "nfs4", True, False, False, 90.0),
    ],
)
def test_a_file_system_is_judged_by_its_mount(
    path: str, kind: str, remote: bool, refused: bool, warned: bool, seconds: float
) -> None:
    mount = mount_of(Path(path), MOUNTS)
    assert (mount.type, mount.remote, mount.refusal is not None, mount.warning is not None) == (
        kind,
        remote,
        refused,
        warned,
    )
    assert takeover_seconds(mount, {}) == seconds
    assert takeover_seconds(mount, {"EFRIT_TAKEOVER_SECONDS": "7.5"}) == 7.5
    assert takeover_seconds(mount, {"EFRIT_TAKEOVER_SECONDS": "soon"}) == seconds


@dataclass
class Site:
    """One instance whose queue another host serves."""

    backend: LocalBackend
    settings: LocalSettings
    queue: Path
    notices: list[str] = field(default_factory=list)

    def silent(self, seconds: float) -> None:
        """Make the heartbeat that old by the clock of the file system."""
        then = time.time() - seconds
        os.utime(self.queue / "heartbeat", (then, then))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look_alike: int) -> Site:
    # Neither an Emacs nor Lisp is to be found where it would be started in vain.
    monkeypatch.setenv("EFRIT_EMACS", str(tmp_path / "emacs"))
    (tmp_path / "emacs").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "emacs").chmod(0o700)
    queue = tmp_path / "queue"
    settings = LocalSettings(tmp_path / "c.json", {"one": LocalInstance("one", queue, "d", tmp_path / "work")})
    notices: list[str] = []
    made = Site(LocalBackend(LocalQueues(settings, notices.append)), settings, queue, notices)
    made.backend._queues.daemon("one").files.ensure_journal()
    # The same boot: the other host is a PID namespace beside this one.
    server = {**OTHER, "boot_id": here().boot_id}
    # Here, an Emacs has that number.
    heartbeat = {
        "pid": look_alike,
        "time": rfc3339(from_epoch(time.time() + 60)),
        "emacs_version": "30.1",
        "processed": 4,
    }
    (queue / "heartbeat").write_text(json.dumps({**heartbeat, "server": server}))
    return made


def finding(site: Site) -> tuple[bool, str]:
    return next(
        (finding.ok, finding.detail) for finding in examine(site.settings) if finding.subject == "instance one"
    )


def test_every_command_says_which_host_serves_the_queue(site: Site) -> None:
    phrase = r"served by other, last heard \d+ s ago"

    async def play() -> None:
        started = await site.backend.start("one")
        assert started.status is StartStatus.ALREADY_RUNNING
        with pytest.raises(Refused, match=f"one is {phrase}"):
            await site.backend.stop("one")
        instance = await site.backend.instance("one")
        assert (instance.status, instance.processed, instance.emacs_version) == (InstanceStatus.ACTIVE, 4, "30.1")
        assert (await site.backend.stats("one")).processed == 4
        ok, detail = finding(site)
        assert ok
        for text in (started.message, instance.message, site.notices[-1], detail):
            assert "erved by other, last heard " in text
        with pytest.raises(Refused, match="is running"):
            await site.backend.remove("one")

    asyncio.run(play())


def test_the_queue_of_a_silent_host_is_served_by_nobody(site: Site) -> None:
    site.silent(1000)

    async def play() -> None:
        instance = await site.backend.instance("one")
        assert instance.status is InstanceStatus.INACTIVE
        assert re.search(r"Was served by other, last heard 1\d{3} s ago", instance.message)
        assert (await site.backend.stop("one")).status is StopStatus.NOT_RUNNING
        # A start is tried, and this Emacs ends at once.
        with pytest.raises(NotReady, match="ended right after its start"):
            await site.backend.start("one")

    asyncio.run(play())


def test_work_of_a_silent_host_is_waiting_for_a_start(site: Site) -> None:
    site.silent(1000)
    (site.queue / "requests/req_a.json").write_text('{"id": "a", "type": "eval", "content": "1"}')
    ok, detail = finding(site)
    assert (ok, "other" in detail, "1 requests wait" in detail) == (False, True, True)


def test_a_cancel_asks_the_other_host_and_starts_no_emacs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "ELSEWHERE_SECONDS", 0.0)

    async def play() -> None:
        handle = await site.backend.submit(Work(RequestType.EVAL, "(while t)", "one"))
        name = f"req_{handle.id}.json"
        (site.queue / "requests" / name).rename(site.queue / "processing" / name)
        state = await site.backend.cancel(Handle(handle.id))
        assert state.phase is Phase.RUNNING
        assert (site.queue / "control" / f"cancel_{handle.id}").read_text() == "Cancelled\n"
        assert "served by other" in site.notices[-1]
        assert not (site.queue / "daemon.log").exists()

    asyncio.run(play())


@dataclass
class Blind:
    """A daemon whose request is seen again after some checks. The edge: what the file system shows."""

    mounted: Mount
    looks: int

    @property
    def files(self) -> Blind:
        return self

    def mount(self) -> Mount:
        return self.mounted

    def state(self, handle: Handle) -> RequestState | None:
        self.looks -= 1
        return None if self.looks >= 0 else RequestState(handle, Phase.RUNNING, RequestReason.RUNNING, "")


@pytest.mark.parametrize(
    ("kind", "looks", "visible"), [("nfs4", 0, True), ("nfs4", 3, True), ("ext4", 0, True), ("ext4", 1, False)]
)
def test_a_request_that_another_host_has_moved_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, kind: str, looks: int, visible: bool
) -> None:
    monkeypatch.setattr(supervise, "_BLIND_PAUSE", 0.0)
    daemon = cast(Daemon, Blind(Mount("/", kind, "x"), looks))
    if visible:
        assert asyncio.run(supervise.visible_state(daemon, Handle("one"))).phase is Phase.RUNNING
    else:
        with pytest.raises(RequestNotFound):
            asyncio.run(supervise.visible_state(daemon, Handle("one")))


@pytest.mark.parametrize(("name", "seconds"), [("one-request", 120.0), ("no request's name!", 0.0)])
def test_a_request_may_be_nowhere_for_twice_the_time_of_a_cache(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float
) -> None:
    table = site.queue.parent / "mountinfo"
    table.write_text(f"43 21 0:43 / {site.queue} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    assert site.backend._queues.blind_seconds(Handle(name)) == seconds


def test_no_queue_is_started_in_an_object_store(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (site.queue / "heartbeat").unlink()
    table = site.queue.parent / "mountinfo"
    table.write_text(f"43 21 0:43 / {site.queue} rw - fuse.s3fs s3fs rw\n")
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    with pytest.raises(NotReady, match="object store"):
        asyncio.run(site.backend.start("one"))
    assert "object store" in finding(site)[1]


def test_the_age_of_a_heartbeat_is_measured_by_the_clock_of_the_file_system(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.silent(50)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    daemon = site.backend._queues.daemon("one").remote_emacs()
    assert daemon is not None
    # The time that a kernel gives a file may be that of its last tick.
    assert 49 < daemon.heartbeat_age < 80
