"""What every resource model shares: naming of fields, object metadata, CEL rules as data.

Models are frozen, speak camelCase on the wire and ignore keys they do not know, so that an older operator
reads objects written under a newer CRD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, PlainSerializer
from pydantic.alias_generators import to_camel

from efrit import resources


def rfc3339(moment: datetime) -> str:
    """Render an aware moment as Kubernetes writes `metav1.Time`: whole seconds, UTC, a `Z`."""
    return _in_utc(moment, "seconds")


def rfc3339_micro(moment: datetime) -> str:
    """Render an aware moment as Kubernetes writes `metav1.MicroTime`."""
    return _in_utc(moment, "microseconds")


def _in_utc(moment: datetime, precision: str) -> str:
    # Not strftime, which writes the year 1 with one digit.
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec=precision)[: -len("+00:00")] + "Z"


_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def _usable(moment: datetime) -> datetime:
    """Return a moment, or the nearest one that can be written in UTC and added to.

    Whoever may write a status may write any.
    """
    if _FIRST.year < moment.year < _LAST.year:
        return moment
    return _FIRST if moment.year == _FIRST.year else _LAST  # gate: usable-time


_Usable = Annotated[datetime, AfterValidator(_usable)]
Time = Annotated[_Usable, PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""A moment in UTC with whole seconds on the wire."""

MicroTime = Annotated[_Usable, PlainSerializer(rfc3339_micro, return_type=str, when_used="json")]
"""A moment in UTC with microseconds on the wire, for what is shorter than a second."""


class Rule(NamedTuple):
    """One CEL rule of a schema (`x-kubernetes-validations`)."""

    rule: str
    message: str
    field_path: str | None = None
    reason: str | None = None

    def as_schema(self) -> dict[str, str]:
        """Return the rule as the CRD schema spells it."""
        schema = {"rule": self.rule, "message": self.message}
        if self.field_path:
            schema["fieldPath"] = self.field_path
        if self.reason:
            schema["reason"] = self.reason
        return schema


VALIDATIONS = "x-kubernetes-validations"


def field_rules(*rules: Rule) -> dict[str, JsonValue]:
    """Return the `json_schema_extra` of a field with rules of its own, which are asked where the field is there.

    Such a rule is cheap: for each access to a field of `self` the API server copies the schema of all its fields.
    """
    return {VALIDATIONS: [dict[str, JsonValue](rule.as_schema()) for rule in rules]}


class PrinterColumn(NamedTuple):
    """One column of `kubectl get`; priority 1 shows with `-o wide` only."""

    name: str
    json_path: str
    type: str = "string"
    description: str = ""
    priority: int = 0


class Scale(NamedTuple):
    """The scale subresource: where the size that is wanted, the size that is and the selector of the pods are."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


class ApiModel(BaseModel):
    """Base of every object below `spec` and `status`."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="ignore"
    )

    rules: ClassVar[Sequence[Rule]] = ()
    """CEL rules of this object, in the order they are checked."""
    may_change: ClassVar[bool] = False
    """Whether rules about changes (`oldSelf`) of what is below do not hold here: a change makes new objects."""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with these fields, which are not checked; without what pydantic does for models of others."""
        if deep:
            return super().model_copy(update=update, deep=True)
        changed = update or {}
        copied = self.__new__(type(self))
        object.__setattr__(copied, "__dict__", {**self.__dict__, **changed})
        object.__setattr__(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__ | changed.keys())
        object.__setattr__(copied, "__pydantic_extra__", None)
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied

    def to_wire(self) -> dict[str, Any]:
        """Return the object as JSON data in camelCase, without unset optional fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class OwnerReference(ApiModel):
    """The part of an owner reference the controller reads."""

    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(ApiModel):
    """The part of an object's metadata the controller reads."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Resource(ApiModel):
    """A custom resource: class attributes carry what its CRD needs beside the schema. The table has its names."""

    resource: ClassVar[resources.Resource]
    kind: ClassVar[str]
    plural: ClassVar[str]
    singular: ClassVar[str]
    short_names: ClassVar[tuple[str, ...]]
    printer_columns: ClassVar[tuple[PrinterColumn, ...]]
    selectable_fields: ClassVar[tuple[str, ...]] = ()
    scale: ClassVar[Scale | None] = None

    metadata: ObjectMeta

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind, cls.plural = cls.resource.kind, cls.resource.plural
        cls.singular = cls.kind.lower()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name
