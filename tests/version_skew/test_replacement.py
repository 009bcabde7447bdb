"""A bridge or a controller is replaced by that of the other version amid the work, as by an upgrade or a rollback."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.support.earlier_build import VARIABLE, Part
from tests.support.kube import until
from tests.support.operator import Operator
from tests.support.site import Site

EARLIER = os.environ.get(VARIABLE, "")

pytestmark = pytest.mark.skipif(not EARLIER, reason="`make version-skew FROM=<commit>` has another version to run")

GATE = '(progn (write-region "gate\\n" nil "counter" t 0) (while (not (file-exists-p "go")) (sleep-for 0.02)) "gate")'


def _replace(site: Site, operator: Operator) -> None:
    """Kill the part that has another version now, and have it started again."""
    if EARLIER.startswith(Part.CONTROLLER):
        operator.kill()
        operator.start(leading=False)
        return
    pod = site.node.pod("one")
    before = pod.bridge_pid
    pod.kill()
    until(lambda: pod.bridge_pid != before, "the bridge is not started again")


def _runs(site: Site, operator: Operator, version: str) -> bool:
    """Return whether the part is of this version; the program of the earlier one is started by another first."""
    part, _, directory = EARLIER.partition("=")
    pid = operator.process.pid if part == Part.CONTROLLER else site.node.pod("one").bridge_pid
    return (directory in Path(f"/proc/{pid}/cmdline").read_text()) is (version == EARLIER)


def _counts(site: Site, word: str, times: int) -> bool:
    return site.counted().count(word) >= times


@pytest.mark.parametrize("upgrade", [True, False], ids=["upgrade", "rollback"])
def test_work_under_way_is_answered_once_where_a_part_is_replaced_by_the_other_version(
    site: Site, monkeypatch: pytest.MonkeyPatch, upgrade: bool
) -> None:
    versions = [EARLIER, ""] if upgrade else ["", EARLIER]
    monkeypatch.setenv(VARIABLE, versions[0])
    operator = site.operator()
    operator.start()
    site.instance()
    running = site.ask(GATE, retryPolicy="IfInterrupted", maxAttempts=2)
    until(partial(_counts, site, "gate", 1), "the request does not run")
    waiting = [site.ask(site.count(f"w{number}")) for number in range(5)]
    cancelled = site.ask(site.count("cancelled"))
    handed_over = 1 + len(waiting)
    until(lambda: len(list((site.node.pod("one").queue / "requests").iterdir())) >= handed_over, "nothing waits")

    monkeypatch.setenv(VARIABLE, versions[1])
    assert _runs(site, operator, versions[0])
    _replace(site, operator)
    until(partial(_runs, site, operator, versions[1]), "the other version does not run")
    site.cancel(cancelled)
    assert site.answer(cancelled)["reason"] == "Cancelled"
    later = site.ask(site.count("later"))
    if EARLIER.startswith(Part.BRIDGE):
        until(partial(_counts, site, "gate", 2), "what was interrupted does not run again")
    (site.node.pod("one").workspace / "go").touch()

    answers = {name: site.answer(name)["result"] for name in (running, *waiting, later)}
    words = {running: '"gate"', later: '"later"'}
    assert answers == words | {name: f'"w{number}"' for number, name in enumerate(waiting)}
    once = [word for word in site.counted() if word != "gate"]
    assert sorted(once) == sorted([*(f"w{number}" for number in range(5)), "later"])
