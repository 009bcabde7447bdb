"""What the chart (or a developer's shell) sets: environment variables, read once at start."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, field

from efrit.controller.model.config import HEAD_START_INSTANCES, ControllerConfig, RolloutLimits
from efrit.environment import FromEnvironment


class Settings(FromEnvironment, frozen=True, kw_only=True):
    """The controller's settings; each is the environment variable EFRIT_<NAME>."""

    #: Namespaces to serve; none: the whole cluster.
    watch_namespaces: tuple[str, ...] = ()
    #: Where the lease and the identity live.
    operator_namespace: str = "efrit-system"
    #: The pod of this process, for the lease and for events.
    pod_name: str = field(default_factory=socket.gethostname)
    #: Image of the bridge: the operator's own.
    operator_image: str
    #: Image of instances that name none.
    emacs_image: str
    image_pull_policy: Annotated[str, Meta(pattern="^(Always|IfNotPresent|Never)$")] = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    identity_secret: str = "efrit-operator-identity"  # noqa: S105 - a name
    lease_name: str = "efrit-operator"
    lease_seconds: Annotated[float, Meta(ge=3)] = 15
    #: What the kubelet reports of this container once it has ended.
    termination_log: str = "/dev/termination-log"
    http_host: str = "0.0.0.0"  # noqa: S104
    http_port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    #: Whether /metrics takes a token, over TLS and on a port of its own.
    metrics_auth: bool = False
    metrics_port: Annotated[int, Meta(ge=0, le=65535)] = 8443
    log_level: Annotated[str, Meta(pattern="^(?i:debug|info|warning|error)$")] = "info"
    log_format: Annotated[str, Meta(pattern="^(text|json)$")] = "text"
    bridge_resources: dict[str, Any] | None = None
    #: Of Emacs in instances that name none.
    emacs_resources: dict[str, Any] | None = None
    #: Keys reconciled at the same time.
    workers: Annotated[int, Meta(ge=1, le=1000)] = 32
    #: How often children are applied again that are not known to be as they were applied.
    resync_seconds: Annotated[float, Meta(ge=10)] = 600
    #: How often lists are compared with what is known.
    sweep_seconds: Annotated[float, Meta(ge=1)] = 60
    #: How often the Secret of each instance is applied again, in case it was deleted.
    secret_check_seconds: Annotated[float, Meta(ge=1)] = 60
    #: From so many instances on, a few requests are served at a start before all instances are listed.
    head_start_instances: Annotated[int, Meta(ge=1)] = HEAD_START_INSTANCES
    #: Bytes of instances and children, compressed, that a process keeps while it stands by; 0: none.
    standby_bytes: Annotated[int, Meta(ge=0)] = 64 << 20
    #: How long a request waits for an instance that does not exist.
    target_grace_seconds: Annotated[float, Meta(ge=0)] = 30

    #: How long a request waits for its start that does not say so itself (spec.queueTimeoutSeconds).
    queue_timeout_seconds: Annotated[float, Meta(ge=60, le=30 * 86_400)] = 7 * 86_400

    #: How long a finished request is kept that does not say so itself (spec.ttlSecondsAfterFinished); 0: for ever.
    request_ttl_seconds: Annotated[int, Meta(ge=0, le=10 * 365 * 86_400)] = 30 * 86_400

    #: Whether the API server notes who made a request (chart value `pools.requester`); else nobody is believed.
    requester: bool = False

    #: Instances that get a new release of the operator at a time.
    rollout_max_concurrent: Annotated[int, Meta(ge=1, le=10_000)] = 5
    #: Instances of one namespace whose pods are replaced at a time.
    rollout_max_concurrent_per_namespace: Annotated[int, Meta(ge=1, le=10_000)] = 2
    #: How long a changed pod template waits for an idle moment before new requests are held back.
    rollout_max_hold_seconds: Annotated[float, Meta(ge=0, le=30 * 86_400)] = 3600
    #: How long an updated instance may take to become Ready.
    rollout_progress_deadline_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600

    def controller_config(self) -> ControllerConfig:
        """Return the part that decisions depend on."""
        config = ControllerConfig(
            bridge_image=self.operator_image,
            emacs_image=self.emacs_image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            operator_namespace=self.operator_namespace,
            target_grace=timedelta(seconds=self.target_grace_seconds),
            queue_timeout=timedelta(seconds=self.queue_timeout_seconds),
            is_requester_noted=self.requester,
            rollout=RolloutLimits(
                max_concurrent=self.rollout_max_concurrent,
                max_concurrent_per_namespace=self.rollout_max_concurrent_per_namespace,
                max_hold=timedelta(seconds=self.rollout_max_hold_seconds),
                progress_deadline=timedelta(seconds=self.rollout_progress_deadline_seconds),
            ),
        )
        if self.bridge_resources is not None:
            config = replace(config, bridge_resources=self.bridge_resources)
        if self.emacs_resources is not None:
            config = replace(config, emacs_resources=self.emacs_resources)
        return config
