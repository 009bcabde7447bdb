"""The bounded part of a pod that a user may shape: never host namespaces, privilege or host paths."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic.fields import FieldInfo

from efrit.api.meta import ApiModel, Rule
from efrit.api_group import GROUP

KUBERNETES_TYPE = "x-efrit-kubernetes-type"
"""Names the model whose schema the generator of the CRDs puts in place (see kubernetes.py)."""


def kubernetes_type(name: str) -> FieldInfo:
    """Return the mark of an object of Kubernetes' own: read as it is, and checked when something is made of it."""
    field: FieldInfo = Field(json_schema_extra={KUBERNETES_TYPE: name})
    return field


EnvVarSource = Annotated[dict[str, Any], kubernetes_type("V1EnvVarSource")]
ConfigMapEnvSource = Annotated[dict[str, Any], kubernetes_type("V1ConfigMapEnvSource")]
SecretEnvSource = Annotated[dict[str, Any], kubernetes_type("V1SecretEnvSource")]
ConfigMapVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1ConfigMapVolumeSource")]
SecretVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1SecretVolumeSource")]
EmptyDirVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1EmptyDirVolumeSource")]
PersistentVolumeClaimVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1PersistentVolumeClaimVolumeSource")]
ProjectedVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1ProjectedVolumeSource")]
CSIVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1CSIVolumeSource")]
EphemeralVolumeSource = Annotated[dict[str, Any], kubernetes_type("V1EphemeralVolumeSource")]
Affinity = Annotated[dict[str, Any], kubernetes_type("V1Affinity")]
NetworkPolicyEgressRule = Annotated[dict[str, Any], kubernetes_type("V1NetworkPolicyEgressRule")]
NetworkPolicyPeer = Annotated[dict[str, Any], kubernetes_type("V1NetworkPolicyPeer")]

Quantity = Annotated[
    str,
    BeforeValidator(str),
    Field(
        max_length=64,
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
            r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        },
    ),
]
"""A Kubernetes quantity such as 500m, 2 or 1Gi."""

BOUND_SOURCES = ("configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "csi", "ephemeral")
PRIVILEGED_KEYS = (
    # Profiles of the kernel, and what a container runtime takes for its configuration.
    "container[.]apparmor[.]security[.]beta[.]kubernetes[.]io/",
    "(container[.])?seccomp[.]security[.]alpha[.]kubernetes[.]io/",
    "security[.]alpha[.]kubernetes[.]io/",
    "io[.]kubernetes[.]cri",
    "io[.]katacontainers[.]",
    "[^/]*crio[.]io",
    "[^/]*nri[.]io",
    # Further networks, addresses and routes.
    "(k8s[.]v1[.]cni[.]cncf|v1[.]multus-cni|cni[.]projectcalico[.]org|k8s[.]ovn[.]org|ovn[.]kubernetes|vpc[.]amazonaws)",
    # Identities at a cloud provider.
    "(eks|iam)[.]amazonaws[.]com/",
    "iam[.]gke[.]io/",
    "azure[.]workload[.]identity/",
    "aadpodidbinding",
    # The scheduler's own.
    "scheduler[.]alpha[.]kubernetes[.]io/",
)
"""Beginnings, as regular expressions, of annotations and labels by which a pod gets what its spec does not say."""
RESERVED_VOLUMES = ("queue", "workspace", "efrit", "home", "tmp", "bridge", "init", "model")
RESERVED_MOUNTS = ("/workspace", "/var/lib/efrit", "/efrit", "/etc/efrit", "/home/efrit", "/tmp")  # noqa: S108


class ResourceRequirements(ApiModel):
    """Requests and limits of a container."""

    requests: dict[str, Quantity] | None = Field(default=None, description="What the scheduler reserves.")
    limits: dict[str, Quantity] | None = Field(default=None, description="What the container may not exceed.")


class Toleration(ApiModel):
    """As in a pod."""

    key: str | None = Field(default=None, max_length=317, description="Key of the taint.")
    operator: str | None = Field(default=None, max_length=16, description="Exists or Equal.")
    value: str | None = Field(default=None, max_length=63, description="Value of the taint.")
    effect: str | None = Field(default=None, max_length=32, description="NoSchedule, PreferNoSchedule or NoExecute.")
    toleration_seconds: int | None = Field(default=None, description="How long, with NoExecute.")


class EnvVar(ApiModel):
    """As in a container."""

    name: str = Field(min_length=1, max_length=256, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", description="Name.")
    value: str | None = Field(default=None, max_length=32_768, description="Value.")
    value_from: EnvVarSource | None = Field(default=None, description="Where the value comes from.")
    rules: ClassVar = (
        Rule(
            "!self.name.startsWith('EFRIT_')",
            "names that start with EFRIT_ belong to the operator: choose another name.",
        ),
    )


class EnvSource(ApiModel):
    """As in a container: all keys of a ConfigMap or Secret."""

    prefix: str | None = Field(default=None, max_length=256, description="Put before every name.")
    config_map_ref: ConfigMapEnvSource | None = Field(default=None, description="The ConfigMap.")
    secret_ref: SecretEnvSource | None = Field(default=None, description="The Secret.")


class Volume(ApiModel):
    """As in a pod, without what reaches the node."""

    name: str = Field(
        min_length=1,
        max_length=63,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        description="Name of the volume.",
    )
    config_map: ConfigMapVolumeSource | None = Field(default=None, description="A ConfigMap's keys as files.")
    secret: SecretVolumeSource | None = Field(default=None, description="A Secret's keys as files.")
    empty_dir: EmptyDirVolumeSource | None = Field(
        default=None, description="An empty directory that exists as long as the pod."
    )
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = Field(
        default=None, description="An existing claim."
    )
    projected: ProjectedVolumeSource | None = Field(default=None, description="Several sources in one directory.")
    csi: CSIVolumeSource | None = Field(default=None, description="An inline CSI volume.")
    ephemeral: EphemeralVolumeSource | None = Field(
        default=None, description="A claim that exists as long as the pod."
    )
    rules: ClassVar = (
        Rule(
            "[" + ", ".join(f"has(self.{source})" for source in BOUND_SOURCES) + "].filter(given, given).size() == 1",
            f"a volume has exactly one of these sources: {', '.join(BOUND_SOURCES)}.",
        ),
        Rule(
            "!(self.name in [" + ", ".join(f"'{name}'" for name in RESERVED_VOLUMES) + "])",
            f"these volume names belong to the operator, choose another: {', '.join(RESERVED_VOLUMES)}.",
        ),
    )


class VolumeMount(ApiModel):
    """As in a container."""

    name: str = Field(min_length=1, max_length=63, description="Name of the volume.")
    mount_path: str = Field(
        min_length=2,
        max_length=1024,
        pattern=r"^/[^:]*$",
        description="Absolute path in the Emacs container.",
    )
    sub_path: str | None = Field(default=None, max_length=1024, description="Path within the volume.")
    read_only: bool | None = Field(default=None, description="Whether it is read-only.")
    rules: ClassVar = (
        Rule(
            "!(self.mountPath in [" + ", ".join(f"'{path}'" for path in RESERVED_MOUNTS) + "]) && "
            "!self.mountPath.startsWith('/efrit/') && !self.mountPath.startsWith('/etc/efrit/') && "
            "!self.mountPath.startsWith('/var/lib/efrit/')",
            f"these paths belong to the operator, mount elsewhere: {', '.join(RESERVED_MOUNTS)}.",
        ),
        Rule(
            r"!self.mountPath.matches('/[.]{0,2}(/|$)')",
            "write the path plainly: without '.', '..' or an empty name in it, and without a '/' at its end.",
        ),
    )


class PullSecret(ApiModel):
    """A Secret with registry credentials, by name."""

    name: str = Field(min_length=1, max_length=253, description="Name of the Secret.")


class PodTemplate(ApiModel):
    """What a user may add to the pod. Together with spec.network and spec.emacs it has at most 128 KiB of JSON."""

    labels: dict[str, Annotated[str, Field(max_length=63)]] = Field(
        default_factory=dict, max_length=64, description="Labels of the pod."
    )
    annotations: dict[str, str] = Field(default_factory=dict, max_length=64, description="Annotations of the pod.")
    node_selector: dict[str, Annotated[str, Field(max_length=63)]] = Field(
        default_factory=dict, max_length=64, description="Labels a node must have."
    )
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=64, description="Taints it tolerates.")
    affinity: Affinity | None = Field(default=None, description="As in a pod.")
    runtime_class_name: str | None = Field(default=None, max_length=253, description="As in a pod.")
    priority_class_name: str | None = Field(default=None, max_length=253, description="As in a pod.")
    image_pull_secrets: tuple[PullSecret, ...] = Field(default=(), max_length=16, description="As in a pod.")
    service_account_name: str | None = Field(
        default=None,
        max_length=253,
        description="A ServiceAccount of yours, whose token is mounted; default: one without permissions or token.",
    )
    env: tuple[EnvVar, ...] = Field(default=(), max_length=128, description="Added to the Emacs container.")
    env_from: tuple[EnvSource, ...] = Field(default=(), max_length=32, description="Added to the Emacs container.")
    volumes: tuple[Volume, ...] = Field(default=(), max_length=32, description="Added to the pod.")
    volume_mounts: tuple[VolumeMount, ...] = Field(
        default=(), max_length=32, description="Added to the Emacs container."
    )
    rules: ClassVar = (
        Rule(
            f"!has(self.labels) || self.labels.all(key, !key.startsWith('{GROUP}/') && "
            "!key.startsWith('app.kubernetes.io/'))",
            f"labels under {GROUP}/ and app.kubernetes.io/ belong to the operator: choose other keys.",
        ),
        Rule(
            "!has(self.volumeMounts) || self.volumeMounts.all(mount, has(self.volumes) && "
            "self.volumes.exists(volume, volume.name == mount.name))",
            "every volumeMount names a volume of podTemplate.volumes.",
        ),
        *(
            Rule(
                f"!has(self.{field}) || !self.{field}.exists(key, key.matches('^({'|'.join(PRIVILEGED_KEYS)})'))",
                f"these {field} give a pod networks, identities or privileges beyond its spec (AppArmor, Multus, IAM "
                "and the like): they are not for podTemplate.",
            )
            for field in ("annotations", "labels")
        ),
        Rule(
            "!has(self.priorityClassName) || !self.priorityClassName.startsWith('system-')",
            "priority classes system-… are for what the cluster runs on: choose another priorityClassName.",
        ),
    )
