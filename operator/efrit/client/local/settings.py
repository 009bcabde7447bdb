"""The configuration file of this machine: which instances there are, where their queues lie.

Read strictly, so that a slip is told and not passed over; unknown keys alone are left for later versions.
Knows nothing of queues or processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from efrit.client.errors import InstanceNotFound, WrongSettings

CONFIG_VARIABLE = "EFRIT_CONFIG"
HOME = "~/.emacs.d/.efrit"
DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


@dataclass(frozen=True)
class LocalInstance:
    """One entry of `instances`. `timeout` in seconds, for evals that name none."""

    id: str
    queue_dir: Path
    daemon_name: str
    workspace_dir: Path
    timeout: float = 30.0
    auto_start: bool = True


@dataclass(frozen=True)
class LocalSettings:
    """The whole file. `polling_interval` in seconds: the longest time between two looks at an answer."""

    path: Path
    instances: Mapping[str, LocalInstance] = field(default_factory=dict)
    polling_interval: float = 0.5
    max_concurrent_requests: int = 20
    cleanup_interval: float = 600.0

    def instance(self, name: str) -> LocalInstance:
        """Raises `InstanceNotFound`."""
        try:
            return self.instances[name]
        except KeyError:
            known = ", ".join(self.instances) or "none"
            raise InstanceNotFound(
                f"there is no instance {name!r} in {self.path} (there: {known})",
                f"start one with `efrit start {name}`, or name another",
            ) from None


def config_path(environment: Mapping[str, str]) -> Path:
    """EFRIT_CONFIG, else efrit/config.json in the user's configuration directory."""
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    return Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "efrit/config.json"


def new_instance(name: str) -> LocalInstance:
    """The instance `name` as it is when nothing is said of it. Raises `WrongSettings`."""
    if not _NAME.fullmatch(name):
        raise WrongSettings(
            f"{name!r} is not a name for an instance", "use letters, digits, '.', '_' and '-', 63 at most"
        )
    home = Path(HOME).expanduser()
    if name == DEFAULT:
        return LocalInstance(name, home / "queues", f"efrit-{name}", home / "workspace")
    place = home / "instances" / name
    return LocalInstance(name, place / "queues", f"efrit-{name}", place / "workspace")


def load(path: Path) -> LocalSettings:
    """The settings in `path`; where there is no file, one instance called default. Raises `WrongSettings`."""
    given = _read(path)
    entries = _get(path, given, "instances", _object, None)
    if entries is None:
        entries = {DEFAULT: {}}
    limits = LocalSettings(path)
    return LocalSettings(
        path,
        {name: _instance(path, name, entry) for name, entry in entries.items()},
        polling_interval=_get(path, given, "polling_interval_ms", _positive, 500.0) / 1000,
        max_concurrent_requests=int(
            _get(path, given, "max_concurrent_requests", _positive, limits.max_concurrent_requests)
        ),
        cleanup_interval=60 * _get(path, given, "cleanup_interval_minutes", _positive, 10.0),
    )


def add_instance(settings: LocalSettings, instance: LocalInstance) -> LocalSettings:
    """Writes `instance` into the file, so that other programs know it too. Raises `WrongSettings`."""
    settings.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with settings.path.with_name(f".{settings.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            given = _read(settings.path)
            entries = given.setdefault("instances", {name: {} for name in settings.instances})
            entries.setdefault(instance.id, {}).update(
                queue_dir=str(instance.queue_dir),
                daemon_name=instance.daemon_name,
                workspace_dir=str(instance.workspace_dir),
            )
            temporary = settings.path.with_name(f".{settings.path.name}.{os.getpid()}")
            temporary.write_text(json.dumps(given, indent=2) + "\n")
            temporary.replace(settings.path)
    except OSError as error:
        raise WrongSettings(f"cannot write {settings.path}: {error.strerror}", "check its permissions") from error
    return replace(settings, instances={**settings.instances, instance.id: instance})


def _read(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise WrongSettings(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except ValueError as error:
        raise WrongSettings(f"{path} is not JSON: {error}", "correct it, or move it away") from error
    return _object(loaded) if isinstance(loaded, dict) else _wrong(path, "the file", "an object")


def _instance(path: Path, name: str, entry: Any) -> LocalInstance:
    here = f"instances.{name}"
    if not isinstance(entry, dict):
        _wrong(path, here, "an object")
    usual = new_instance(name)

    def directory(key: str, default: Path) -> Path:
        text = _get(path, entry, key, _text, None, here)
        return default if text is None else Path(text).expanduser()

    return LocalInstance(
        name,
        queue_dir=directory("queue_dir", usual.queue_dir),
        daemon_name=_get(path, entry, "daemon_name", _text, usual.daemon_name, here),
        workspace_dir=directory("workspace_dir", usual.workspace_dir),
        timeout=_get(path, entry, "timeout", _positive, usual.timeout, here),
        auto_start=_get(path, entry, "auto_start", _truth, usual.auto_start, here),
    )


def _get(
    path: Path, given: Mapping[str, Any], key: str, read: Callable[[Any], Any], default: Any, at: str = ""
) -> Any:
    if key not in given:
        return default
    try:
        return read(given[key])
    except ValueError as error:
        return _wrong(path, f"{at}.{key}" if at else key, str(error))


def _wrong(path: Path, what: str, wanted: str) -> Any:
    raise WrongSettings(f"{path}: {what} must be {wanted}", "correct the file")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an object")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("a text")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError("a number above 0")
    return float(value)
