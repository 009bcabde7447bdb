"""The settings of the model of a daemon of this machine, and how a caller's differ from the daemon's. Pure."""

from __future__ import annotations

from collections.abc import Mapping

NAME, BASE_URL, KEY_FILE, PROXY = (
    "EFRIT_MODEL_NAME",
    "EFRIT_MODEL_BASE_URL",
    "EFRIT_MODEL_API_KEY_FILE",
    "EFRIT_MODEL_PROXY",
)
DEFAULT_BASE_URL = "https://api.anthropic.com"
"""As in the Lisp and in the EfritInstance: docs/dev/contracts.toml."""

PREFIX = "EFRIT_MODEL_"


def settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that describe a model. The key itself is in none of them."""
    return {name: value for name, value in sorted(environment.items()) if name.startswith(PREFIX) and value}


def differences(daemon_model: Mapping[str, str], client_model: Mapping[str, str]) -> str:
    """Return in a phrase how `client_model` differ from `daemon_model`, empty where they agree.

    What `client_model` leave out is not a difference.
    """
    return ", ".join(
        f"{name} is {value} here and {daemon_model.get(name) or 'unset'} there"
        for name, value in client_model.items()
        if daemon_model.get(name) != value
    )
