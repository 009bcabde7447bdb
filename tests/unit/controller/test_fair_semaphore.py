"""fair_semaphore.py: one key at a time, the others are requeued in order, namespaces alternate, none is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from efrit.controller.fair_semaphore import MAX_PERMITS, SLOW_SECONDS, FairSemaphore
from efrit.controller.model.keys import WorkKey
from tests.unit.controller.virtual_time import on_virtual_time


def key(namespace: str, name: object = "one") -> WorkKey:
    return WorkKey("EfritPlan", namespace, str(name))


ONE, TWO, THREE = (key("team", name) for name in ("one", "two", "three"))
OTHER = key("other")


class Rig:
    def __init__(self) -> None:
        self.requeued: list[WorkKey] = []
        self.semaphore = FairSemaphore(self.requeued.append)
        self._held: dict[WorkKey, ExitStack] = {}

    def begin(self, key: WorkKey) -> bool:
        """Have a key reconciled up to its permit; return whether it has one."""
        stack = ExitStack()
        acquired = stack.enter_context(self.semaphore.acquire(key))
        if acquired:
            self._held[key] = stack
        else:
            stack.close()
            self.semaphore.reconciled(key)
        return acquired

    def end(self, key: WorkKey) -> None:
        """Have the reconciliation end of a key that has a permit."""
        self._held.pop(key).close()
        self.semaphore.reconciled(key)

    def wait(self, *keys: WorkKey) -> None:
        assert [self.begin(key) for key in keys] == [False] * len(keys)


def with_rig(test: Callable[[Rig], Awaitable[None]]) -> Callable[[], None]:
    @on_virtual_time
    async def run() -> None:
        await test(Rig())

    run.__name__ = test.__name__
    return run


@with_rig
async def test_one_key_has_the_permit_and_the_others_are_requeued_one_by_one_when_it_is_released(rig: Rig) -> None:
    assert rig.begin(ONE)
    rig.wait(TWO, THREE, TWO)
    assert rig.requeued == []
    rig.end(ONE)
    assert rig.requeued == [TWO]

    rig.semaphore.reconciled(TWO)
    assert rig.requeued == [TWO, THREE], "the one before had no use for it"
    assert len(rig.semaphore) == 0


@with_rig
async def test_a_failure_releases_the_permit(rig: Rig) -> None:
    for waiting in (ONE, TWO):
        try:
            with rig.semaphore.acquire(waiting) as acquired:
                assert acquired
                raise TimeoutError
        except TimeoutError:
            pass


@with_rig
async def test_many_plans_of_one_namespace_do_not_keep_that_of_another_waiting(rig: Rig) -> None:
    rig.begin(ONE)
    rig.wait(*(key("team", number) for number in range(100)), OTHER)
    rig.end(ONE)
    rig.begin(rig.requeued[-1])
    rig.end(rig.requeued[-1])

    assert OTHER in rig.requeued[:2]


@with_rig
async def test_a_permit_that_was_granted_is_kept_though_another_key_is_faster(rig: Rig) -> None:
    rig.begin(ONE)
    rig.wait(OTHER)
    rig.end(ONE)
    assert rig.requeued == [OTHER]

    rig.wait(TWO, THREE)

    assert rig.begin(OTHER)
    rig.end(OTHER)
    assert rig.requeued == [OTHER, TWO]


@with_rig
async def test_a_namespace_whose_calls_hang_blocks_itself_alone(rig: Rig) -> None:
    rig.begin(ONE)
    rig.wait(TWO, OTHER)

    await asyncio.sleep(SLOW_SECONDS)

    assert rig.requeued == [OTHER]
    assert rig.begin(OTHER)
    rig.wait(key("third"))
    rig.end(OTHER)
    assert rig.requeued == [OTHER, key("third")]
    rig.begin(key("third"))
    rig.end(key("third"))
    rig.end(ONE)
    assert rig.requeued == [OTHER, key("third"), TWO]


@with_rig
async def test_a_key_gets_a_permit_at_once_while_another_namespace_hangs(rig: Rig) -> None:
    rig.begin(ONE)
    await asyncio.sleep(SLOW_SECONDS)

    rig.wait(TWO)
    assert rig.begin(OTHER)


@with_rig
async def test_permits_are_few_however_many_namespaces_hang(rig: Rig) -> None:
    for number in range(MAX_PERMITS):
        assert rig.begin(key(f"hangs-{number}"))
        await asyncio.sleep(SLOW_SECONDS)

    rig.wait(OTHER)
    rig.end(key("hangs-0"))
    assert rig.requeued == [OTHER]


@with_rig
async def test_a_key_that_does_not_use_its_permit_keeps_nobody_waiting(rig: Rig) -> None:
    rig.begin(ONE)
    rig.wait(TWO, OTHER)
    rig.end(ONE)
    assert rig.requeued == [TWO]

    await asyncio.sleep(SLOW_SECONDS)

    assert rig.requeued == [TWO, OTHER]
    rig.begin(OTHER)
    rig.end(OTHER)
    assert rig.requeued == [TWO, OTHER, TWO]


steps = st.lists(st.tuples(st.sampled_from(["begin", "end", "pass", "sleep"]), st.integers(0, 3), st.integers(0, 2)))


@given(steps)
def test_every_key_that_waits_is_requeued_and_no_namespace_has_two_permits(
    script: list[tuple[str, int, int]],
) -> None:
    @on_virtual_time
    async def run() -> None:
        rig, holding = Rig(), list[WorkKey]()
        for step, namespace, name in script:
            one = key(f"n{namespace}", name)
            if step == "begin" and one not in holding and rig.begin(one):
                holding.append(one)
            elif step == "end" and one in holding:
                holding.remove(one)
                rig.end(one)
            elif step == "pass" and one not in holding:
                rig.semaphore.reconciled(one)
            elif step == "sleep":
                await asyncio.sleep(SLOW_SECONDS)
            assert len({key.namespace for key in holding}) == len(holding) <= MAX_PERMITS
        for one in holding:
            rig.end(one)
        while len(rig.semaphore):
            before = len(rig.requeued)
            rig.begin(rig.requeued[-1])
            rig.end(rig.requeued[-1])
            assert len(rig.requeued) > before or not len(rig.semaphore)

    run()
