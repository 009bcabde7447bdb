"""What the store keeps of an object of any kind, and how keys and versions compare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from efrit.api.meta import Resource
from efrit.controller.model.keys import Key

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Record(ABC):
    """What is known of one object."""

    left_selection: bool = False
    """Whether it left the watched selection, and nobody has asked why yet."""
    verifying: bool = False
    """Whether somebody is asking why, and it has not left once more since."""
    reduced_status: bool = False
    """Whether the object is too large for a status of the usual size."""
    written: str = ""
    """The resourceVersion that this process wrote last, which the watch reports once more."""

    @property
    @abstractmethod
    def uid(self) -> str | None:
        """UID of the object, None while it was not seen."""

    @property
    @abstractmethod
    def version(self) -> str:
        """Its resourceVersion."""


@dataclass(slots=True)
class ObjectRecord(Record, Generic[T]):
    """What is known of one object, and the object as last seen."""

    object: T

    @property
    def uid(self) -> str | None:
        """UID of the object, None while it was not seen."""
        return self.object.metadata.uid if isinstance(self.object, Resource) else None

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return self.object.metadata.resource_version if isinstance(self.object, Resource) else ""


def in_scope(key: Key, scope: str | None) -> bool:
    """Return whether a key belongs to a namespace; every key belongs to None, the whole cluster."""
    return scope is None or key[0] == scope


def is_older(new: str, recorded: str) -> bool:
    """Return whether a resourceVersion is earlier than another: versions grow with time, beyond objects too."""
    return new.isdigit() and recorded.isdigit() and int(new) < int(recorded)
