"""Refusals of the API server in one namespace: a ValidatingAdmissionPolicy, or a ResourceQuota that is used up.

No controller here counts what a quota is used for: its status is written once, and allows nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from tests.support.kube import Json, Kube, Refused

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RESULT_TYPE = "efrit.dev/result"


@dataclass(frozen=True)
class Matched:
    """What a policy refuses: a resource, its group, and the operations."""

    group: str
    resource: str
    operations: tuple[str, ...] = ("CREATE",)
    allowed: str = "false"
    """CEL: what is allowed nevertheless."""


MATCHES = {
    "result secrets": Matched("", "secrets", allowed=f"!has(object.type) || object.type != '{RESULT_TYPE}'"),
    "secrets": Matched("", "secrets"),
    "statefulsets": Matched("apps", "statefulsets", ("CREATE", "UPDATE")),
    "pods": Matched("", "pods"),
    "persistentvolumeclaims": Matched("", "persistentvolumeclaims"),
}


class Refusal:
    """A policy for one namespace; takes effect within a second or two."""

    def __init__(self, kube: Kube, namespace: str, what: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._matched = MATCHES[what]
        self._name = f"{namespace}-{what.replace(' ', '-')}"

    def begin(self) -> None:
        """Create the policy and its binding."""
        rule = {
            "apiGroups": [self._matched.group],
            "apiVersions": ["*"],
            "resources": [self._matched.resource],
            "operations": list(self._matched.operations),
        }
        policy = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": self._matched.allowed,
                    "message": f"{self._matched.resource} are refused for a while",
                    "reason": "Forbidden",
                }
            ],
        }
        here = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        binding = {
            "policyName": self._name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        }
        self._make("ValidatingAdmissionPolicy", policy)
        self._make("ValidatingAdmissionPolicyBinding", binding)

    def _make(self, kind: str, spec: Json) -> None:
        body = {"apiVersion": ADMISSION.removeprefix("/apis/"), "kind": kind, "metadata": {"name": self._name}}
        # An earlier step of the schedule refuses the same already.
        with contextlib.suppress(Refused):
            self._kube.call("POST", f"{ADMISSION}/{_plural(kind)}", {**body, "spec": spec})

    def end(self) -> None:
        """Delete both."""
        for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
            with contextlib.suppress(Refused):
                self._kube.call("DELETE", f"{ADMISSION}/{_plural(kind)}/{self._name}")


def _plural(kind: str) -> str:
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


class Quota:
    """A ResourceQuota that allows no more of one resource."""

    def __init__(self, kube: Kube, namespace: str, what: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._what = what
        self._name = "used-up-" + "".join(letter if letter.isalnum() else "-" for letter in what)

    def begin(self) -> None:
        """Create the quota, used up."""
        hard = {self._what: "0"}
        with contextlib.suppress(Refused):
            self._kube.create(
                "resourcequotas", self._namespace, {"metadata": {"name": self._name}, "spec": {"hard": hard}}
            )
            status = {"status": {"hard": hard, "used": {self._what: "0"}}}
            self._kube.patch("resourcequotas", self._namespace, self._name, status, sub="status")

    def end(self) -> None:
        """Delete the quota."""
        with contextlib.suppress(Refused):
            self._kube.delete("resourcequotas", self._namespace, self._name)
