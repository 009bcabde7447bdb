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
from tests.support.shared.inside import content
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
    name = other.efrit("submit", "--timeout", "600", "(sleep-for 600)").out.strip()
    until(lambda: site.heartbeat().get("current") == name, "it runs")
    cancelled = other.efrit("cancel", name)
    assert cancelled.code == 0, cancelled.err
    waited = other.efrit("wait", name, "-o", "json")
    assert json.loads(waited.out)["reason"] == "Cancelled", waited.err
    assert (len(server.emacs()), other.emacs(), site.generation()) == (1, [], 1)


def test_a_request_that_comes_again_once_it_has_ended_runs_once_whatever_emacs_remembers(site: Site) -> None:
    # Longer than the test takes: what the host of Emacs has seen of names it never asks again.
    site.memory, site.takeover = 900.0, 2000.0
    queue = site.directory / "store/queue"
    server = site.host("server", 0)
    until(lambda: server.done, "the host is up")

    def submit(key: str) -> str:
        waits = f'(while (not (file-exists-p "{site.directory / key}")) (sleep-for 0.05))'
        work = f"(progn {content(site.directory / 'log', key)} {waits})"
        return server.efrit("submit", "--timeout", "900", work).out.strip()

    once = submit("once")
    until(lambda: site.begun() == 1, "it runs")
    # The next copy comes while it runs, as that of a client that looked before it was claimed.
    request = json.loads((queue / f"processing/req_{once}.json").read_text())
    (queue / "tmp/again").write_text(json.dumps({**request, "timestamp": "2099-01-01T00:00:00Z"}))
    (queue / "tmp/again").rename(queue / f"requests/req_{once}.json")
    submit("between")
    (site.directory / "once").touch()
    until(lambda: site.begun() == 2, "the one before the next copy runs")
    # Another host has read the answer.
    (queue / f"responses/resp_{once}.json").rename(queue / f"archive/resp_{once}.json")
    (site.directory / "between").touch()
    until(lambda: not [*queue.glob("requests/*"), *queue.glob("processing/*")], "nothing waits or runs")
    assert [key for word, key, _ in site.notes() if word == "begin"] == ["once", "between"]
    assert (queue / f"archive/req_{once}.json").exists()


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
