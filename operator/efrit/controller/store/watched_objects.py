"""The objects of one kind as last seen: what instances, requests and plans have in common.

An object is never replaced by an older version of itself, so that the controller reads its own writes; once it is
forgotten, no older version brings it back.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from efrit.api import FINAL_PHASES
from efrit.api.meta import Resource
from efrit.controller.model.keys import Key, WorkKey
from efrit.controller.store.index import Index
from efrit.controller.store.records import Record, in_scope, is_older

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Resource)
R = TypeVar("R", bound=Record)


class WatchedObjects(ABC, Generic[T, R]):
    """One record for each object. A kind says what a change of its objects means: `_observed` and `observe_gone`."""

    def __init__(self, model: type[T], records: dict[Key, R], index: Index) -> None:
        self._model = model
        self._records = records
        self._index = index

    def observe(self, obj: Mapping[str, Any]) -> None:
        """Take in an object that a watch, a list or a call has returned; one that cannot be read is logged."""
        try:
            new = self._index.reader.read(self._model, obj)
        except ValidationError as error:
            log.error("%s %s cannot be read: %s", self._model.kind, obj.get("metadata", {}).get("name"), error)
            return
        final = obj.get("status", {}).get("phase") in FINAL_PHASES
        if self._index.tombstones.is_late(new.metadata.uid, final=final):
            return
        record = self._records.get(new.key)
        if record is None or record.uid is None or not is_older(new.metadata.resource_version, record.version):
            self._observed(new, record)

    def observe_event(self, obj: Mapping[str, Any]) -> None:
        """Take in an object that a watch reports, unless this process has written and taken in this very version."""
        if not self._is_written(obj["metadata"]):
            self.observe(obj)

    def observe_written(self, obj: Mapping[str, Any]) -> None:
        """Take in an object as a write of this process has made it."""
        self.observe(obj)
        meta = obj["metadata"]
        record = self.record((meta["namespace"], meta["name"]), meta["uid"])
        if record is not None and record.version == meta["resourceVersion"]:
            record.written = record.version

    def _is_written(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the record is of this very version, and this process has written it."""
        record = self._records.get((metadata.get("namespace", ""), metadata["name"]))
        version = metadata.get("resourceVersion")
        return (
            record is not None
            and bool(record.written)
            and record.written == record.version == version
            and record.uid == metadata.get("uid")
        )

    def observe_left(self, obj: Mapping[str, Any]) -> None:
        """Take in that an object left the watched selection: deleted, or final."""
        meta = obj["metadata"]
        self.observe_missing((meta["namespace"], meta["name"]), meta["uid"])

    def observe_missing(self, key: Key, uid: str) -> None:
        """Take in that an object is not in a list of the watched selection: it left, or the list is of the past."""
        record = self.record(key, uid)
        if record is not None:
            record.left_selection, record.verifying = True, False
            self.requeue(key)

    def must_verify(self, key: Key) -> str | None:
        """Return the UID of an object that left the selection though nothing known explains it."""
        record = self._records.get(key)
        if record is None or not record.left_selection or self.is_over(record):
            return None
        return record.uid

    def verification_begins(self, key: Key, uid: str) -> None:
        """Record that the API server is being asked about an object that left the selection."""
        record = self.record(key, uid)
        if record is not None:
            record.verifying = True

    def observe_verified(self, key: Key, uid: str, obj: Mapping[str, Any] | None) -> None:
        """Take in what the API server has in the place of an object that left the selection, None for nothing.

        One that left once more since it was asked about has to be asked about again.
        """
        if obj is None:
            self.observe_gone(key, uid)
            return
        self.observe(obj)
        record = self._records.get(key)
        if record is not None and record.verifying and obj.get("status", {}).get("phase") not in FINAL_PHASES:
            record.left_selection = False

    def deleted(self, key: Key, uid: str) -> None:
        """Take in that this process has deleted an object, or found it deleted."""
        self.observe_gone(key, uid)

    def status_too_large(self, key: Key, uid: str) -> None:
        """Remember that the object has no room for a status of the usual size."""
        record = self.record(key, uid)
        if record is not None:
            record.reduced_status = True

    @abstractmethod
    def observe_gone(self, key: Key, uid: str) -> None:
        """Take in that the API server does not know the object with this UID any more."""

    @abstractmethod
    def drop(self, key: Key) -> None:
        """Forget an object with which nothing is left to do."""

    @abstractmethod
    def is_done(self, key: Key) -> bool:
        """Return whether nothing is left to do about an object."""

    def drop_if_done(self, key: Key) -> None:
        """Forget an object with which nothing is left to do."""
        if self.is_done(key):
            self.drop(key)

    @abstractmethod
    def is_over(self, record: R) -> bool:
        """Return whether an object is known to be final or deleted."""

    @abstractmethod
    def _observed(self, new: T, record: R | None) -> None:
        """Take in a version of an object that is not older than the one recorded."""

    def record(self, key: Key, uid: str) -> R | None:
        """Return the record of the object with this key and UID."""
        record = self._records.get(key)
        return record if record is not None and record.uid == uid else None

    def open_uids(self, scope: str | None = None) -> dict[Key, str]:
        """Return key and UID of every object of a namespace that is not over."""
        return {
            key: uid
            for key, record in self._records.items()
            if (uid := record.uid) is not None and not self.is_over(record) and in_scope(key, scope)
        }

    def count_open(self) -> int:
        """Return how many objects are not over."""
        return sum(record.uid is not None and not self.is_over(record) for record in self._records.values())

    def requeue(self, key: Key) -> None:
        """Have an object reconciled again."""
        self._index.queue.add(WorkKey(self._model.kind, *key))
