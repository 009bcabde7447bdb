"""Which instance does the work when none is named: `default`; for `*`, the least loaded one that is ready. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from efrit.backend.errors import NoInstance
from efrit.backend.interface import Instance, InstanceStatus

DEFAULT = "default"
"""The instance of work that names none."""


def default_instance(names: Iterable[str]) -> str:
    """Return the instance of work that names none: `default`, or the only one there is. Raises `NoInstance`.

    Never by load or readiness: the same command is to reach the same Emacs every time.
    """
    names = sorted(names)
    if DEFAULT in names:
        return DEFAULT
    if len(names) == 1:
        return names[0]
    if not names:
        raise NoInstance("there is no instance", f"start one with `efrit start {DEFAULT}`")
    raise NoInstance(
        f"no instance is named, and none of {', '.join(names[:10])} is called {DEFAULT}",
        "name one with --instance, or * for the least loaded one",
    )


def matching(instances: Iterable[Instance], selector: Mapping[str, str] | None) -> list[Instance]:
    """Return the instances that have every label of `selector`."""
    labels = (selector or {}).items()
    return [instance for instance in instances if all(instance.labels.get(key) == value for key, value in labels)]


def least_loaded(instances: Iterable[Instance], selector: Mapping[str, str] | None = None) -> Instance:
    """Return the active instance with the least work, or one that work would start. Raises `NoInstance`.

    Of equals the one that has answered least, then the first by name: the same list gives the same choice.
    """
    fitting = matching(instances, selector)
    active = [instance for instance in fitting if instance.status is InstanceStatus.ACTIVE]
    candidates = active or [instance for instance in fitting if instance.can_start]
    if not candidates:
        raise NoInstance(
            _no_instance_reason(fitting, selector), "start one with `efrit start NAME`, or see `efrit instances`"
        )
    return min(candidates, key=lambda instance: (instance.load, instance.processed, instance.id))


def _no_instance_reason(fitting: list[Instance], selector: Mapping[str, str] | None) -> str:
    if fitting:
        return "no instance is ready: " + ", ".join(f"{instance.id} is {instance.reason}" for instance in fitting)
    if selector:
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        return f"no instance has the labels {labels}"
    return "there is no instance"
