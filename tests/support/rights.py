"""Whether the API server lets an account do something by now: it learns of roles and bindings by a watch."""

from __future__ import annotations

from efrit import resources
from efrit.resources import Resource
from tests.support.kube import Json, Kube, until


def is_allowed(kube: Kube, namespace: str, account: str, **attributes: Json) -> bool:
    """Return whether a service account may do what `attributes` say, as in the spec of a SubjectAccessReview."""
    spec = {"user": f"system:serviceaccount:{namespace}:{account}", **attributes}
    answer = kube.call("POST", resources.ACCESS_REVIEWS.path(), resources.ACCESS_REVIEWS.manifest({}, spec=spec))
    return bool(answer["status"]["allowed"])


def until_allowed(kube: Kube, namespace: str, account: str, verb: str, resource: Resource, where: str) -> None:
    """Wait until a service account of a namespace may do something with a resource in another, or everywhere."""
    attributes: Json = {"namespace": where, "verb": verb, "group": resource.group, "resource": resource.plural}
    until(
        lambda: is_allowed(kube, namespace, account, resourceAttributes=attributes),
        f"{account} may not {verb} {resource.plural} in {where or 'all namespaces'}",
    )
