"""The table of resources: which group, kind and plural each has, and the URL paths that follow from them.

The product, its generated CRDs and the tests take every name from here; the chart's templates spell theirs.
Light to import: no library, no models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from efrit.api_group import API_VERSION


class Resource(NamedTuple):
    """One kind of object as the API server serves it."""

    api_version: str
    kind: str
    plural: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.api_version.rpartition("/")[2]

    @property
    def root(self) -> str:
        """The URL path of the group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path of a collection, an object or its subresource; without a namespace, of the cluster."""
        scope = f"namespaces/{namespace}" if namespace is not None else None
        return "/".join(part for part in (self.root, scope, self.plural, name, subresource) if part)

    def manifest(self, metadata: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """Return an object of this resource."""
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": dict(metadata), **fields}

    def reference(self, name: str, uid: str, **fields: Any) -> dict[str, Any]:
        """Return a reference to an object of this resource, as an owner has it in `ownerReferences`."""
        return {"apiVersion": self.api_version, "kind": self.kind, "name": name, "uid": uid, **fields}

    def owner_of(self, metadata: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return name and UID of the object of this resource, in any version, that controls what has this metadata.

        None where nothing does, or an object of another resource.
        """
        owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
        if [(owner["apiVersion"].rpartition("/")[0], owner["kind"]) for owner in owners] != [(self.group, self.kind)]:
            return None
        return owners[0]["name"], owners[0]["uid"]


INSTANCES = Resource(API_VERSION, "EfritInstance", "efritinstances")
REQUESTS = Resource(API_VERSION, "EfritRequest", "efritrequests")
PLANS = Resource(API_VERSION, "EfritPlan", "efritplans")
POOLS = Resource(API_VERSION, "EfritPool", "efritpools")
EXCLUSIVE_CLAIMS = Resource(API_VERSION, "EfritClaim", "efritclaims")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
EVENTS = Resource("v1", "Event", "events")
LIMIT_RANGES = Resource("v1", "LimitRange", "limitranges")
NAMESPACES = Resource("v1", "Namespace", "namespaces")
VOLUME_CLAIMS = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PODS = Resource("v1", "Pod", "pods")
QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas")
SECRETS = Resource("v1", "Secret", "secrets")
SERVICES = Resource("v1", "Service", "services")
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts")
CONTROLLER_REVISIONS = Resource("apps/v1", "ControllerRevision", "controllerrevisions")
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments")
STATEFULSETS = Resource("apps/v1", "StatefulSet", "statefulsets")
TOKEN_REVIEWS = Resource("authentication.k8s.io/v1", "TokenReview", "tokenreviews")
ACCESS_REVIEWS = Resource("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
SELF_ACCESS_REVIEWS = Resource("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews")
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases")
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
DISRUPTION_BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
ROLES = Resource("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
STORAGE_CLASSES = Resource("storage.k8s.io/v1", "StorageClass", "storageclasses")
PRIORITY_CLASSES = Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses")
RUNTIME_CLASSES = Resource("node.k8s.io/v1", "RuntimeClass", "runtimeclasses")
JOBS = Resource("batch/v1", "Job", "jobs")
AUTOSCALERS = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings")
MUTATING_POLICIES = Resource(
    "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies"
)
MUTATING_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"
)
VALIDATING_POLICIES = Resource(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"
)
VALIDATING_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
)
DEFINITIONS = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
API_SERVICES = Resource("apiregistration.k8s.io/v1", "APIService", "apiservices")

RESOURCES = tuple(value for value in tuple(globals().values()) if isinstance(value, Resource))
_BY_NAME = {name: resource for resource in RESOURCES for name in (resource.kind, resource.plural)}


def resource_named(name: str) -> Resource:
    """Return the resource of a kind or a plural. Raises KeyError."""
    return _BY_NAME[name]


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    """Return the resource of an object. Raises KeyError for a kind or an apiVersion that the table does not have."""
    resource = _BY_NAME[manifest["kind"]]
    if resource.api_version != manifest["apiVersion"]:
        raise KeyError(f"{manifest['kind']} of {manifest['apiVersion']}")
    return resource
