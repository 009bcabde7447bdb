"""Three hosts at one queue, whose file system remembers what it has seen. See docs/shared-queues.md."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kube import until
from tests.support.shared.hosts import Site, play, violations
from tests.support.shared.program import available

pytestmark = pytest.mark.skipif(not available(), reason="a host takes root, /dev/fuse and Go")

REQUESTS = 30


@pytest.fixture
def site() -> Iterator[Site]:
    # Sockets of Emacs have short names.
    directory = Path(tempfile.mkdtemp(prefix="efrit-hosts-"))
    made = Site(directory, memory=1.0, takeover=5.0)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(directory, ignore_errors=True)


def test_each_request_of_three_hosts_runs_once_and_one_emacs_serves(site: Site) -> None:
    answers = play(site, REQUESTS)
    assert violations(site, answers) == []
    assert len(answers) == REQUESTS
    # It was served by the first host, by the one after it, and by the one after that.
    assert site.generation() >= 3


def test_a_start_a_stop_and_a_cancel_on_another_host_begin_no_second_emacs(site: Site) -> None:
    # No heartbeat is that late here.
    site.takeover = 90.0
    server, other = site.host("server", 1), site.host("other", 0)
    until(lambda: server.done and other.done, "both hosts are up, and one of them serves")
    started, stopped = other.efrit("start", "team"), other.efrit("stop", "team")
    assert "team is served by server, last heard " in started.out
    assert (stopped.code != 0, "team is served by server, last heard " in stopped.err) == (True, True)
    for words in (("instances", "team", "-o", "json"), ("stats", "team"), ("doctor",)):
        done = other.efrit(*words)
        assert "erved by server, last heard " in done.out + done.err
    name = other.efrit("submit", "--timeout", "600", "(while t)").out.strip()
    until(lambda: site.heartbeat().get("current") == name, "it runs")
    cancelled = other.efrit("cancel", name)
    assert cancelled.code == 0, cancelled.err
    waited = other.efrit("wait", name, "-o", "json")
    assert json.loads(waited.out)["reason"] == "Cancelled", waited.err
    assert (len(server.emacs()), other.emacs(), site.generation()) == (1, [], 1)


@pytest.mark.parametrize(("command", "printed"), [("requests", "Succeeded"), ("result", "42"), ("logs", "42")])
def test_a_request_that_another_host_has_just_moved_is_found(site: Site, command: str, printed: str) -> None:
    # The other host remembers from its submit that there is nothing where the answer is now.
    site.takeover, site.memory = 90.0, 4.0
    server, other = site.host("server", 1), site.host("other", 0)
    until(lambda: server.done and other.done, "both hosts are up, and one of them serves")
    name = other.efrit("submit", '(message "%d" (* 6 7))').out.strip()
    until((site.directory / f"store/queue/responses/resp_{name}.json").exists, "it is answered")
    looked = other.efrit(command, name)
    assert looked.code == 0, looked.err
    assert printed in looked.out
