"""Plans on this machine: their records below the user's data directory, driven by whoever watches one.

Each of `efrit.backend.plans.Plans` as in a cluster. Nothing runs in the background: a plan goes on while somebody
watches it, and stands still meanwhile; a request that is under way in Emacs ends.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pydantic import ValidationError

from efrit.api import EfritPlan
from efrit.api.meta import rfc3339
from efrit.api_group import GROUP
from efrit.backend.errors import Conflict, NotReady, PlanNotFound, Refused, check_directory
from efrit.backend.interface import ANY_INSTANCE, Backend
from efrit.backend.local.limits import limit_in
from efrit.backend.local.plan_driver import PlanDriver
from efrit.backend.local.plan_record import PLAN, Json, PlanRecord, first_problem
from efrit.backend.local.settings import LocalInstance, LocalSettings
from efrit.backend.placement import default_instance, least_loaded
from efrit.backend.plan_history import history_of
from efrit.backend.plan_states import (
    LONGEST_NAME,
    named_target,
    plan_digest,
    plan_name,
    plan_of,
    plan_spec,
    without_texts,
)
from efrit.backend.plans import DIRECTORY, Change, NewPlan, PlanState
from efrit.backend.resource_fields import DIGEST
from efrit.errors import InvalidTree
from efrit.plan.initial_tree import initial_tree

MAX_PLANS = 1_000
"""Plans whose records are kept; who has more deletes some."""

QUEUE = f"{GROUP}/queue"
"""Annotation: the directory of the queue, which has the plan's requests."""

_FOLLOW_SECONDS = 0.3
_CHANGES: dict[Change, Json] = {
    Change.SUSPEND: {"suspend": True},
    Change.RESUME: {"suspend": False},
    Change.CANCEL: {"cancel": True},
}


class LocalPlans:
    """`efrit.backend.plans.Plans` of this machine: `root` has the records, `backend` does the work."""

    def __init__(
        self,
        backend: Backend,
        settings: LocalSettings,
        root: Path,
        notify: Callable[[str], None] = lambda text: None,
        has_model: Callable[[str], bool] = lambda instance: True,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._root = root
        self._notify = notify
        self._has_model = has_model

    async def create_plan(self, new: NewPlan) -> PlanState:
        """Store a new plan; one with the same name or key is the same plan. It begins once it is watched."""
        spec = plan_spec(new)
        named = named_target(new, spec)
        _check(spec, named)
        name = plan_name(new, spec["intent"]["description"], secrets.token_hex(3)[:5])
        digest = plan_digest(spec, {**(named or {}), "directory": new.directory})
        fixed = new.name is not None or new.key is not None
        if fixed and (record := self._record(name)).exists:
            return _check_same(record, digest)
        if len(self._names()) >= MAX_PLANS:
            raise Refused(
                f"there are {MAX_PLANS} plans on this machine", f"delete records you no longer need in {self._root}"
            )
        instance = await self._instance(named)
        self._need_model(instance.id)
        check_directory(new.directory)
        if new.directory is not None and not Path(new.directory).is_dir():  # noqa: ASYNC240 - a stat on a local disk
            raise Refused(f"there is no directory {new.directory}", "name one that exists with -C")
        directory = {} if new.directory is None else {DIRECTORY: new.directory}
        plan = {
            "metadata": {
                "name": name,
                "uid": secrets.token_hex(16),
                "generation": 1,
                "creationTimestamp": rfc3339(datetime.now(UTC)),
                "annotations": {DIGEST: digest, QUEUE: str(instance.queue_dir.absolute()), **directory},
            },
            "spec": {**spec, "instanceRef": {"name": instance.id}},
        }
        _validate(plan)
        record = self._record(name)
        if not record.create(plan):
            return _check_same(record, digest)
        return _state(record)

    async def _instance(self, named: Json | None) -> LocalInstance:
        name = ((named or {}).get("instanceRef") or {}).get("name")
        if name is None:
            name = default_instance(self._settings.require_instances())
        elif name == ANY_INSTANCE:
            name = least_loaded(await self._backend.instances()).id
        return self._settings.instance(str(name))

    def _need_model(self, instance: str) -> None:
        # The engine would end the plan for good.
        if not self._has_model(instance):
            raise NotReady(
                f"{instance} has no model, and a plan needs one",
                f"set EFRIT_MODEL_NAME (docs/cli.md) and restart it: efrit restart {instance}",
            )

    async def plans(self, *, brief: bool = False) -> Sequence[PlanState]:
        """Return the plans of this machine, oldest first; one whose record cannot be read is only reported."""
        states: list[PlanState] = []
        for name in self._names():
            try:
                state = _state(self._record(name))
                states.append(without_texts(state) if brief else state)
            except (Refused, NotReady) as error:
                self._notify(f"{error.message}; {error.advice}")
        epoch = datetime.fromtimestamp(0, UTC)
        return sorted(states, key=lambda state: (state.created or epoch, state.name))

    async def plan(self, name: str) -> PlanState:
        """Return the present state. Raises `PlanNotFound`."""
        return _state(self._existing_record(name))

    async def watch_plan(self, name: str) -> AsyncIterator[PlanState]:
        """Yield the plan's states as they change, and drive it meanwhile, unless another process does."""
        record = self._existing_record(name)
        state = _state(record)
        yield state
        while not state.final:
            with record.driver_lock() as alone:
                if alone:
                    async with aclosing(self._driver(record).run()) as changes:
                        async for _ in changes:
                            yield (state := _state(record))
                else:
                    await asyncio.sleep(_FOLLOW_SECONDS)
            last, state = state, _state(record)
            if state != last:
                yield state

    def _driver(self, record: PlanRecord, *, keep_trying: bool = True) -> PlanDriver:
        obj = record.object()
        with record.refuse_unreadable(PLAN):
            notes = obj["metadata"]["annotations"]
            queue, named = notes[QUEUE], obj["spec"]["instanceRef"]["name"]
        instance = self._settings.instance(named)
        if str(instance.queue_dir.absolute()) != queue:
            raise Refused(
                f"the plan {record.name} has its requests in {queue}, and {instance.id} has another queue",
                "use the configuration that it was begun with",
            )
        if keep_trying:
            self._need_model(instance.id)
        return PlanDriver(
            record,
            self._backend,
            instance.id,
            notes.get(DIRECTORY) or str(instance.workspace_dir.absolute()),
            lambda: datetime.now(UTC),
            keep_trying=keep_trying,
            # Of the daemon, which is started with our environment.
            max_session_tokens=limit_in(os.environ, "EFRIT_MAX_TOKENS"),
            max_timeout_seconds=limit_in(os.environ, "EFRIT_MAX_TIMEOUT"),
        )

    async def amend_plan(self, name: str, text: str) -> PlanState:
        """Append the text; of several at the same time each is kept."""
        if not text.strip():
            raise Refused("there is nothing to add: the amendment is empty", "say what was forgotten")
        record = self._open_record(name, "an amendment would have no effect")

        def amend(spec: Json) -> None:
            spec["amendments"] = [*(spec.get("amendments") or ()), text]

        record.change(amend)
        return _state(record)

    async def change_plan(self, name: str, change: Change) -> PlanState:
        """Suspend, resume or cancel the plan. A cancel is carried out here, unless another process drives it."""
        if change is Change.CANCEL and (state := _state(self._existing_record(name))).final:
            return state
        record = self._open_record(name, f"there is nothing to {change}")
        record.change(lambda spec: spec.update(_CHANGES[change]))
        with record.driver_lock() as alone:
            if alone and change is Change.CANCEL:
                async with aclosing(self._driver(record, keep_trying=False).run()) as changes:
                    async for _ in changes:
                        pass
        if alone and change is Change.RESUME:
            self._notify(f"{name} goes on while it is watched: efrit plan watch {name}")
        return _state(record)

    async def plan_history(self, name: str, limit: int | None = None) -> dict[str, Any]:
        """Return the history in the plan's repository, by an eval on the plan's instance."""
        record = self._existing_record(name)
        directory = record.object()["metadata"]["annotations"].get(DIRECTORY)
        return await history_of(self._backend, _state(record), limit, directory)

    # Records

    def _names(self) -> list[str]:
        if not self._root.is_dir():
            return []
        # What a kill left of one that was being begun has a name that no plan has.
        names = (path.name for path in self._root.iterdir())
        return [name for name in sorted(names) if plan_name_is_valid(name) and self._record(name).exists]

    def _record(self, name: str) -> PlanRecord:
        return PlanRecord(self._root / name)

    def _existing_record(self, name: str) -> PlanRecord:
        # A name from the command line may be a path.
        record = self._record(name)
        if not plan_name_is_valid(name) or not record.exists:
            raise PlanNotFound(f"there is no plan {name} in {self._root}", "see `efrit plan list`")
        return record

    def _open_record(self, name: str, refusal: str) -> PlanRecord:
        record = self._existing_record(name)
        state = _state(record)
        if state.final:
            raise Refused(f"{state.name} is over ({state.reason}): {refusal}", "create a new plan")
        return record


def plan_name_is_valid(name: str) -> bool:
    """Return whether a plan can have this name, which is that of a directory."""
    return 0 < len(name) <= LONGEST_NAME and name.isascii() and name.replace("-", "a").isalnum()


def _state(record: PlanRecord) -> PlanState:
    state = plan_of(record.object())
    if state.started is None:
        return replace(state, message=f"It begins once it is watched: efrit plan watch {record.name}")
    return state


def _check_same(record: PlanRecord, digest: str) -> PlanState:
    if record.object()["metadata"]["annotations"].get(DIGEST) != digest:
        name = record.name
        raise Conflict(
            f"there is a plan {name} already, with something else in it",
            f"choose another name or key, or go on with that one: efrit plan watch {name}",
        )
    return _state(record)


def _check(spec: Json, named: Json | None) -> None:
    """Raise `Refused` for what only a cluster has."""
    if (named or {}).get("poolRef"):
        raise Refused("only a cluster has pools", "leave the pool out, or name a cluster")
    git = (spec.get("environment") or {}).get("git") or {}
    if git.get("secretRef"):
        raise Refused("only a cluster has Secrets", "clone it yourself, and name the directory of the clone")
    if spec.get("ttlSecondsAfterFinished") is not None:
        raise Refused(
            "plans are not deleted by their age on this machine", "leave ttlSecondsAfterFinished out of the plan"
        )
    if (url := git.get("url")) and "://" not in url:
        path = Path(url).expanduser().absolute()
        if not path.is_dir():
            raise Refused(f"there is no directory {path}", "name a repository by its URL or its directory")
        git["url"] = path.as_uri()


def _validate(plan: Json) -> None:
    """Raise `Refused` for a plan that the API server of a cluster would refuse."""
    try:
        initial_tree(EfritPlan.model_validate(plan).spec)
    except ValidationError as error:
        raise Refused(f"the plan is invalid: {first_problem(error)}", "see docs/api.md, EfritPlan") from error
    except InvalidTree as error:
        raise Refused(f"the plan is invalid: {error.message}", "correct its tasks") from error
