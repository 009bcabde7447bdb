"""Contents that found no room in the controller's memory: they are read again when their turn comes."""

from __future__ import annotations

from efrit.controller.store.contents import MAX_BYTES
from tests.support.kube import until
from tests.support.site import Site

SIZE = 240_000
COUNT = MAX_BYTES // SIZE + 8


def test_requests_whose_contents_were_dropped_after_a_restart_are_answered_by_these(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance(ready=False, operatingMode="Suspended", limits={"maxRequestBytes": SIZE + 100})
    site.until_condition("one", "Ready", reason="Suspended")
    operator.stop()
    names = [site.ask(f'(prog1 {number} "{"x" * SIZE}")') for number in range(COUNT)]
    operator.start()
    until(lambda: operator.metric("efrit_open_requests") == COUNT, "not all requests are known")
    assert operator.metric('efrit_held_bytes{kind="contents"}') <= MAX_BYTES < COUNT * SIZE

    site.kube.patch("efritinstances", site.namespace, "one", {"spec": {"operatingMode": "Running"}})

    assert [site.answer(name)["result"] for name in names] == [str(number) for number in range(COUNT)]
