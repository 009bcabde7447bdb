"""The StatefulSet of one: the bridge as a native sidecar, then Emacs. At most one pod per identity at any time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from efrit.api import EfritInstance
from efrit.api.instance import InstanceSpec
from efrit.api.instance_model import Model
from efrit.api.instance_volumes import Storage
from efrit.controller.model import names
from efrit.controller.model.config import ControllerConfig
from efrit.resources import STATEFULSETS

BRIDGE = "bridge"
DRAIN_MARGIN_SECONDS = 10
"""For Emacs and the bridge to end after the work has."""
BRIDGE_START_SECONDS = 120
"""Before the liveness probe begins: on a node that is short of CPU, a bridge needs more than a minute to start."""
SCRATCH_SIZE = "10Gi"
EPHEMERAL_SIZES: Mapping[str, str] = {"queue": "2Gi", "workspace": "10Gi"}
"""A pod that writes more is evicted: enough for any usual work, and no node runs full of one instance."""

RESTRICTED: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


POOL_LABELS = {names.POOL_LABEL, names.REVISION_LABEL}
"""An instance that only has the first was labelled by its user: its pod stays as it is."""


def build_statefulset(instance: EfritInstance, config: ControllerConfig, replicas: int) -> dict[str, Any]:
    """Return the StatefulSet; `replicas` is 1, or 0 while suspended."""
    labels = names.selector_labels(instance)
    return STATEFULSETS.manifest(
        names.child_metadata(instance, names.child_name(instance)),
        spec={
            "replicas": replicas,
            "serviceName": names.child_name(instance),
            "podManagementPolicy": "Parallel",
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": labels},
            "template": _template(instance, config, labels),
        },
    )


def _pool_label(instance: EfritInstance) -> dict[str, str]:
    """Return the label by which an autoscaler finds the pods of a pool."""
    labels = instance.metadata.labels
    return {names.POOL_LABEL: labels[names.POOL_LABEL]} if labels.keys() >= POOL_LABELS else {}


def _template(instance: EfritInstance, config: ControllerConfig, labels: dict[str, str]) -> dict[str, Any]:
    user = instance.spec.pod_template
    own_account = user.service_account_name is None
    limits = instance.spec.limits
    drain = min(_longest(instance.spec) + DRAIN_MARGIN_SECONDS, limits.drain_seconds)
    pull_secrets = [{"name": name} for name in config.image_pull_secrets]
    pull_secrets += [item.to_wire() for item in user.image_pull_secrets]
    spec: dict[str, Any] = {
        "serviceAccountName": user.service_account_name or names.child_name(instance),
        "automountServiceAccountToken": not own_account,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": drain,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": names.USER_ID,
            "runAsGroup": names.USER_ID,
            "fsGroup": names.USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [_bridge(instance, config)],
        "containers": [_emacs(instance, config)],
        "volumes": _volumes(instance),
    }
    if pull_secrets:
        spec["imagePullSecrets"] = pull_secrets
    if user.node_selector:
        spec["nodeSelector"] = dict(user.node_selector)
    if user.tolerations:
        spec["tolerations"] = [item.to_wire() for item in user.tolerations]
    optional = {
        "affinity": user.affinity,
        "runtimeClassName": user.runtime_class_name,
        "priorityClassName": user.priority_class_name,
    }
    spec |= {key: value for key, value in optional.items() if value is not None}
    return {
        "metadata": {
            "labels": {**user.labels, **_pool_label(instance), **labels},
            "annotations": {
                **user.annotations,
                "kubectl.kubernetes.io/default-container": names.EMACS_CONTAINER,
                names.TEMPLATE_HASH: "",
            },
        },
        "spec": spec,
    }


def _longest(spec: InstanceSpec) -> int:
    """Return how long a request that names no timeout may run, in seconds."""
    evals, commands = spec.limits.request_timeout_seconds, spec.limits.command_timeout_seconds
    return evals if spec.model is None else max(evals, commands)


def _bridge(instance: EfritInstance, config: ControllerConfig) -> dict[str, Any]:
    queue, limits = instance.spec.queue, instance.spec.limits
    port = {"port": names.BRIDGE_PROBE_PORT, "scheme": "HTTP"}
    return {
        "name": BRIDGE,
        "image": config.bridge_image,
        "imagePullPolicy": config.image_pull_policy,
        "restartPolicy": "Always",
        "command": ["efrit-bridge"],
        "env": _env(
            {
                "EFRIT_QUEUE_DIR": names.QUEUE_DIR,
                "EFRIT_BRIDGE_PORT": names.BRIDGE_PORT,
                "EFRIT_BRIDGE_PROBE_PORT": names.BRIDGE_PROBE_PORT,
                "EFRIT_BRIDGE_SECRETS": names.BRIDGE_SECRETS,
                "EFRIT_SHARED_DIR": names.SHARED,
                "EFRIT_MAX_PENDING": queue.max_pending,
                "EFRIT_MAX_REQUEST_BYTES": limits.max_request_bytes,
                "EFRIT_ARCHIVE_SECONDS": queue.archive_seconds,
                "EFRIT_ARCHIVE_REQUESTS": queue.archive_requests,
                "EFRIT_ARCHIVE_BYTES": queue.archive_bytes,
                "EFRIT_REQUEST_TIMEOUT": limits.request_timeout_seconds,
                **({"EFRIT_EPHEMERAL_QUEUE": "1"} if queue.ephemeral else {}),
                # What came without one is a chat or command of somebody else's client.
                **({"EFRIT_COMMAND_TIMEOUT": limits.command_timeout_seconds} if instance.spec.model else {}),
            }
        ),
        "ports": [{"name": "bridge", "containerPort": names.BRIDGE_PORT, "protocol": "TCP"}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", **port},
            "initialDelaySeconds": BRIDGE_START_SECONDS,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", **port},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
        "resources": json.loads(json.dumps(config.bridge_resources)),
        "securityContext": dict(RESTRICTED),
        "volumeMounts": [
            {"name": "queue", "mountPath": names.QUEUE_MOUNT},
            {"name": "efrit", "mountPath": names.SHARED},
            {"name": "bridge", "mountPath": names.BRIDGE_SECRETS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp", "subPath": BRIDGE},  # noqa: S108
        ],
    }


def _emacs(instance: EfritInstance, config: ControllerConfig) -> dict[str, Any]:
    spec, user = instance.spec, instance.spec.pod_template
    ours: dict[str, Any] = {
        "EFRIT_QUEUE_DIR": names.QUEUE_DIR,
        "EFRIT_INSTANCE_ID": names.instance_id(instance),
        "EFRIT_DAEMON_NAME": spec.emacs.daemon_name,
        "EFRIT_WORKSPACE": names.WORKSPACE,
        "EFRIT_REQUEST_TIMEOUT": spec.limits.request_timeout_seconds,
        "EFRIT_MAX_TIMEOUT": spec.limits.max_timeout_seconds,
        "EFRIT_MAX_RESULT_BYTES": spec.limits.max_result_bytes,
        "EFRIT_BRIDGE": "1",
        "HOME": names.HOME,
        "LANG": "C.UTF-8",
    }
    mounts: list[dict[str, Any]] = [
        {"name": "queue", "mountPath": names.QUEUE_MOUNT},
        {"name": "workspace", "mountPath": names.WORKSPACE},
        {"name": "efrit", "mountPath": names.SHARED, "readOnly": True},
        {"name": "home", "mountPath": names.HOME},
        {"name": "tmp", "mountPath": "/tmp", "subPath": names.EMACS_CONTAINER},  # noqa: S108
    ]
    if spec.queue.ephemeral:
        ours["EFRIT_EPHEMERAL_QUEUE"] = "1"
    if spec.emacs.init_config_map_ref is not None:
        ours["EFRIT_INIT_FILE"] = f"{names.INIT_DIR}/init.el"
        mounts.append({"name": "init", "mountPath": names.INIT_DIR, "readOnly": True})
    fast = spec.emacs.fast_start
    if fast is not None:
        ours["EFRIT_FAST_START_LIBRARIES"] = " ".join(fast.libraries)
        if fast.existing_claim is not None:
            ours["EFRIT_FAST_START_DIR"] = names.SHARED_DUMPS_DIR
            mounts.append({"name": "dumps", "mountPath": names.SHARED_DUMPS_DIR})
        elif not spec.queue.ephemeral:
            # On a queue that goes with its pod a dump would be made at each start, for none to begin from.
            ours["EFRIT_FAST_START_DIR"] = names.DUMPS_DIR
    if spec.model is not None:
        ours |= _model(instance.spec, spec.model)
        mounts.append({"name": "model", "mountPath": names.MODEL_SECRETS, "readOnly": True})
    mounts += [item.to_wire() for item in user.volume_mounts]
    container: dict[str, Any] = {
        "name": names.EMACS_CONTAINER,
        "image": spec.emacs.image or config.emacs_image,
        # The bridge writes the script within its first moments; waiting here costs less than a startup probe.
        "command": [
            "/bin/sh",
            "-c",
            f"until [ -x {names.SHARED}/run-emacs ]; do sleep 0.05; done; exec {names.SHARED}/run-emacs",
        ],
        # By name: a variable given twice is refused by server-side apply.
        "env": list(
            {item["name"]: item for item in [*_env(ours), *(variable.to_wire() for variable in user.env)]}.values()
        ),
        "workingDir": names.WORKSPACE,
        "resources": spec.emacs.resources.to_wire()
        if spec.emacs.resources
        else json.loads(json.dumps(config.emacs_resources)),
        "securityContext": dict(RESTRICTED),
        "volumeMounts": mounts,
    }
    if user.env_from:
        container["envFrom"] = [item.to_wire() for item in user.env_from]
    policy = spec.emacs.image_pull_policy
    if policy is not None:
        container["imagePullPolicy"] = policy.value
    elif spec.emacs.image is None:
        container["imagePullPolicy"] = config.image_pull_policy
    return container


def _model(spec: InstanceSpec, model: Model) -> dict[str, Any]:
    """Return the variables that only chats and commands use: without a model, a change of theirs changes nothing."""
    optional = {
        "EFRIT_MAX_ITERATIONS": spec.limits.max_iterations,
        "EFRIT_MAX_TOKENS": spec.limits.max_tokens,
        "EFRIT_ITERATION_TIMEOUT": spec.limits.iteration_timeout_seconds,
        "EFRIT_MODEL_PROXY": model.proxy_url,
        "EFRIT_TOOLS_ALLOW": ",".join(spec.tools.allow),
        "EFRIT_TOOLS_DENY": ",".join(spec.tools.deny),
    }
    return {
        "EFRIT_MODEL_NAME": model.name,
        "EFRIT_MODEL_BASE_URL": model.base_url,
        "EFRIT_MODEL_MAX_TOKENS": model.max_tokens,
        "EFRIT_MODEL_API_KEY_FILE": f"{names.MODEL_SECRETS}/api-key",
        "EFRIT_MODEL_PROTOCOL": model.protocol.value,
        "EFRIT_CONCURRENCY": spec.queue.concurrency,
        "EFRIT_COMMAND_TIMEOUT": spec.limits.command_timeout_seconds,
        "EFRIT_MAX_TOOL_CALLS": spec.limits.max_tool_calls,
        "EFRIT_MAX_REPEATED_CALLS": spec.limits.max_repeated_calls,
        **{name: value for name, value in optional.items() if value},
    }


def _volumes(instance: EfritInstance) -> list[dict[str, Any]]:
    spec = instance.spec
    volumes: list[dict[str, Any]] = [
        {"name": "queue", **_storage(instance, "queue", spec.queue)},
        {"name": "workspace", **_storage(instance, "workspace", spec.workspace)},
        {"name": "efrit", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "home", "emptyDir": {"sizeLimit": SCRATCH_SIZE}},
        {"name": "tmp", "emptyDir": {"sizeLimit": SCRATCH_SIZE}},
        {"name": "bridge", "secret": {"secretName": names.secret_name(instance), "defaultMode": 0o440}},
    ]
    if spec.emacs.init_config_map_ref is not None:
        volumes.append({"name": "init", "configMap": {"name": spec.emacs.init_config_map_ref.name}})
    if spec.emacs.fast_start is not None and spec.emacs.fast_start.existing_claim is not None:
        claim = spec.emacs.fast_start.existing_claim
        volumes.append({"name": "dumps", "persistentVolumeClaim": {"claimName": claim}})
    if spec.model is not None:
        ref = spec.model.api_key_secret_ref
        items = [{"key": ref.key, "path": "api-key"}]
        volumes.append({"name": "model", "secret": {"secretName": ref.name, "items": items, "defaultMode": 0o440}})
    return volumes + [volume.to_wire() for volume in spec.pod_template.volumes]


def _storage(instance: EfritInstance, volume: str, storage: Storage) -> dict[str, Any]:
    if storage.ephemeral:
        return {"emptyDir": {"sizeLimit": storage.size_limit or EPHEMERAL_SIZES[volume]}}
    claim = storage.existing_claim or names.claim_name(instance, volume)
    return {"persistentVolumeClaim": {"claimName": claim}}


def _env(values: Mapping[str, object]) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]
