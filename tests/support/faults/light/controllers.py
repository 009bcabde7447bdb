"""The controllers of the light tier as processes, and which faults are about which process. Injects none."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.faults.api_proxy.rules import Fault, final_status
from tests.support.faults.schedule import CallFault, Op
from tests.support.operator import POLL_SECONDS, Operator

DISTURBING = frozenset(
    {Op.KILL_CONTROLLER, Op.STOP_CONTROLLER, Op.KILL_API, Op.STOP_API, Op.KILL_ETCD, Op.STOP_ETCD, Op.CALL}
    | {Op.SET_CLOCK, Op.UPGRADE}
)
"""What keeps the controller, or its API server, from working for a while."""

DAEMONS = {
    Op.KILL_API: "kube-apiserver",
    Op.STOP_API: "kube-apiserver",
    Op.KILL_ETCD: "etcd",
    Op.STOP_ETCD: "etcd",
}


def armed_fault(call: CallFault) -> Fault:
    """Return the proxy's fault for a fault of the schedule."""
    return Fault(
        call.effect,
        verb=call.verb,
        resource=call.resource,
        sub=call.sub if call.verb and call.sub else None,
        when=final_status if call.final else None,
        skip=call.skip,
        times=call.times,
        seconds=call.seconds,
    )


@dataclass
class Controller:
    """One controller process and what is being done to it."""

    operator: Operator
    frozen: bool = False
    relaunch_at: float | None = None
    kills: int = 0


def select_controller(controllers: Sequence[Controller], target: str) -> Controller:
    """Return the leader or a standby where the schedule names one, else the first."""
    if target not in ("leader", "standby"):
        return controllers[0]
    roles: dict[str, Controller] = {}
    for controller in controllers:
        if not controller.frozen and controller.operator.process.status is None:
            with contextlib.suppress(httpx.TransportError, AssertionError):
                roles["leader" if controller.operator.role(POLL_SECONDS) == "leading" else "standby"] = controller
    return roles.get(target) or next(iter(roles.values()), controllers[0])


def is_emacs(pid: int) -> bool:
    """Return whether a process is an Emacs."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("emacs")
    except OSError:
        return False
