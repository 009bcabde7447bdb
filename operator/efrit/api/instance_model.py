"""EfritInstance: the model that chats and commands ask, its key, and the hosts that may not be one."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from efrit.api.meta import ApiModel, Rule
from efrit.api.request import ObjectName


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: str = Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="Key in the Secret.")


METADATA_HOSTS = (
    r"169[.]254[.][0-9.]*|[[](fe[89ab][0-9a-f]:|fd00:ec2:|::ffff:(169[.]254[.]|a9fe:))[^/]*|"
    r"metadata([.]google[.]internal)?"
)
"""Regular expression of hosts where a node's own credentials are served, in CEL."""
SYSTEM_HOSTS = r"[^/.:]+[.]kube-[^/.:]+([.]svc([.][^/:]*)?)?"
"""Of Services in the namespaces of Kubernetes."""
METADATA_ADDRESSES = ("169.254.169.254", "fd00:ec2::254")


class ModelProvider(StrEnum):
    """Whose protocol the model speaks."""

    ANTHROPIC = "anthropic"


class ModelProtocol(StrEnum):
    """How the model acts in a command."""

    TOOLS = "tools"
    ELISP = "elisp"


class Model(ApiModel):
    """The model that chats and commands ask. Absent: the instance does evals only."""

    provider: ModelProvider = Field(default=ModelProvider.ANTHROPIC, description="Protocol of the model's API.")
    base_url: str = Field(
        alias="baseURL",
        default="https://api.anthropic.com",
        max_length=2048,
        # Spelled out: what else counts as white space, the API server and Python see differently.
        pattern=r"^https?://[!\"$-.0->@-~]+(/[!\"$->@-~]*)?$",
        description="Base URL of the API.",
    )
    name: str = Field(min_length=1, max_length=256, description="Name of the model.")
    protocol: ModelProtocol = Field(
        default=ModelProtocol.TOOLS,
        description="tools: a command's model calls tools. elisp: each of its answers is one Lisp expression to run "
        "and says whether the session goes on.",
    )
    proxy_url: str | None = Field(
        default=None,
        alias="proxyURL",
        max_length=2048,
        pattern=r"^(https?|socks5h?)://[!\"$-.0->A-~]+/?$",
        description="Proxy on the way to the API, without user and password; without a port it is 1080, or 443 with "
        "https. Default: none.",
    )
    api_key_secret_ref: SecretKeyRef = Field(description="Where the API key is stored.")
    max_tokens: int = Field(default=8192, ge=1, le=1_000_000, description="Longest answer of one turn, in tokens.")
    rules: ClassVar = tuple(
        Rule(
            # Not by the functions for URLs: what they return has no bound, and so no cost that would be accepted.
            f"!has(self.{field}) || "
            f"!self.{field}.matches('(?i)^[a-z0-9]+://([^/]*@)?({pattern})[.]?(:[0-9]*)?(/.*)?$')",
            f"{field} {message}",
        )
        for field in ("baseURL", "proxyURL")
        for pattern, message in (
            (
                METADATA_HOSTS,
                "is a link-local address or a metadata service, from which a pod gets the credentials of its node: "
                "name the host of the model.",
            ),
            (SYSTEM_HOSTS, "is in a namespace of Kubernetes (kube-…): name the host of the model."),
        )
    )
