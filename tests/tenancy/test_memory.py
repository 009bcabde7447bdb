"""The controller's memory under what a tenant may leave in the cluster: within the formula of docs/install.md.

The API server and the controller are real, its limit of memory is the kernel's; pods and bridges are simulated. Full
sizes: `python -m tests.bench.controller_memory`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from efrit.resources import REQUESTS
from tests.cluster.paths import REPOSITORY
from tests.support.crowd import objects
from tests.support.crowd.cgroup import memory_group, memory_of
from tests.support.crowd.crowd import crowd
from tests.support.operator import KEPT_LEASE_SECONDS

OPEN = 2000
SIZE = 65_536
EXPIRED = 500
SECONDS = 300.0

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a limit of memory takes the rights of root")


def allowance(*, open_requests: int, instances: int, plans: int = 0) -> float:
    """Return the megabytes that docs/install.md says the controller needs."""
    page = (REPOSITORY / "docs" / "install.md").read_text()
    share = r"\+ (\d+) KB for each"
    pattern = rf"(\d+) MB {share} open request {share} open plan {share} instance \+ (\d+) MB of budgets"
    formula = re.search(pattern, page)
    assert formula is not None, "docs/install.md has no formula"
    base, request, plan, instance, budgets = map(int, formula.groups())
    return base + (request * open_requests + plan * plans + instance * instances) / 1000 + budgets


def limit_of_the_chart() -> int:
    values = (REPOSITORY / "charts" / "efrit-operator" / "values.yaml").read_text()
    match = re.search(r"Memory the controller may not exceed\.\n +memory: (\d+)Mi", values)
    assert match is not None
    return int(match[1]) << 20


async def test_what_one_tenant_leaves_open_or_finished_neither_kills_the_controller_nor_keeps_others_waiting(
    tmp_path: Path,
) -> None:
    async with crowd(tmp_path) as made:
        await made.add_instances(["hoards"], holds=True)
        await made.add_instances(["answers"], holds=False)
        made.operator.configure(EFRIT_LEASE_SECONDS=KEPT_LEASE_SECONDS)
        await made.launch()
        await made.until_connected(2, SECONDS)
        made.operator.stop()
        requests = (objects.request(f"open{n:04}", made.namespace, "hoards", SIZE) for n in range(OPEN))
        expired = (objects.finished(f"over{n:04}", made.namespace, "hoards", ttl=0) for n in range(EXPIRED))
        assert objects.store(made.plane.ports.etcd, (*requests, *expired)) == OPEN + EXPIRED
        objects.store(made.plane.ports.etcd, [objects.request("other", made.namespace, "answers", SIZE)])

        with memory_group(limit_of_the_chart()) as group:
            await made.launch(group)
            await made.until_answered({"other"}, SECONDS)
            await made.until_metric("efrit_open_requests", lambda value: value >= OPEN, SECONDS)
            await made.until_listed(REQUESTS, OPEN + 1, SECONDS)
            memory = memory_of(made.operator.process.pid)
            made.check()
            made.operator.close()

            assert memory.peak < allowance(open_requests=OPEN, instances=2)
            assert group.killed == 0


def test_the_limit_of_the_chart_is_enough_for_what_the_page_says_it_is() -> None:
    limit = limit_of_the_chart() / 1e6

    assert allowance(open_requests=10_000, instances=100) < limit
    assert allowance(open_requests=700, instances=700) < limit
    assert allowance(open_requests=1000, instances=100, plans=1000) < limit
