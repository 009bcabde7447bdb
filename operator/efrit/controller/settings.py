"""What the chart (or a developer's shell) sets: environment variables, read once at start."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Json

from efrit.controller.decide.rollout_view import RolloutLimits
from efrit.controller.decide.views import ControllerConfig
from efrit.environment import FromEnvironment


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A comma-separated list."""


class Settings(FromEnvironment):
    """The controller's settings; each is the environment variable EFRIT_<NAME>."""

    watch_namespaces: Names = Field(default=(), description="Namespaces to serve; none: the whole cluster.")
    operator_namespace: str = Field(default="efrit-system", description="Where the lease and the identity live.")
    pod_name: str = Field(default_factory=socket.gethostname, description="Who this process is, for the lease.")
    operator_image: str = Field(description="Image of the bridge: the operator's own.")
    emacs_image: str = Field(description="Image of instances that name none.")
    image_pull_policy: str = Field(default="IfNotPresent", pattern="^(Always|IfNotPresent|Never)$")
    image_pull_secrets: Names = ()
    identity_secret: str = "efrit-operator-identity"  # noqa: S105 - a name
    lease_name: str = "efrit-operator"
    lease_seconds: float = Field(default=15, ge=3)
    http_host: str = "0.0.0.0"  # noqa: S104
    http_port: int = Field(default=8080, ge=0, le=65535)
    log_level: str = Field(default="info", pattern="^(?i:debug|info|warning|error)$")
    log_format: str = Field(default="text", pattern="^(text|json)$")
    bridge_resources: Json[dict[str, Any]] | None = None
    workers: int = Field(default=32, ge=1, le=1000, description="Keys looked at at a time.")
    resync_seconds: float = Field(default=600, ge=10, description="How often children are applied again.")
    sweep_seconds: float = Field(default=60, ge=1, description="How often lists are compared with what is known.")
    secret_check_seconds: float = Field(
        default=60,
        ge=1,
        description="How often the Secret of each instance is applied again, in case it was deleted.",
    )
    target_grace_seconds: float = Field(
        default=30, ge=0, description="How long a request waits for an instance that does not exist."
    )

    rollout_max_concurrent: int = Field(
        default=5, ge=1, le=10_000, description="Instances that get a new release of the operator at a time."
    )
    rollout_max_concurrent_per_namespace: int = Field(
        default=2, ge=1, le=10_000, description="Instances of one namespace whose pods are replaced at a time."
    )
    rollout_max_hold_seconds: float = Field(
        default=3600,
        ge=0,
        le=30 * 86_400,
        description="How long a changed pod template waits for an idle moment before new requests are held back.",
    )
    rollout_progress_deadline_seconds: float = Field(
        default=600, ge=1, le=86_400, description="How long an updated instance may take to become Ready."
    )

    def controller_config(self) -> ControllerConfig:
        """Return the part that decisions depend on."""
        config = ControllerConfig(
            bridge_image=self.operator_image,
            emacs_image=self.emacs_image,
            image_pull_policy=self.image_pull_policy,
            image_pull_secrets=self.image_pull_secrets,
            operator_namespace=self.operator_namespace,
            target_grace=timedelta(seconds=self.target_grace_seconds),
            rollout=RolloutLimits(
                max_concurrent=self.rollout_max_concurrent,
                max_concurrent_per_namespace=self.rollout_max_concurrent_per_namespace,
                max_hold=timedelta(seconds=self.rollout_max_hold_seconds),
                progress_deadline=timedelta(seconds=self.rollout_progress_deadline_seconds),
            ),
        )
        if self.bridge_resources is None:
            return config
        return replace(config, bridge_resources=self.bridge_resources)
