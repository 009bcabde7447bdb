"""The configuration file of this machine: which instances there are, where their queues lie.

Read strictly, so that a slip is reported and not passed over: an unknown key is an error. Those that other programs
read in the same file have no effect (doctor names them).
Knows nothing of queues or processes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from efrit.backend.errors import InstanceNotFound, WrongSettings
from efrit.entry_point import load_entry_point

CONFIG_VARIABLE = "EFRIT_CONFIG"
DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)

KEYS = ("instances", "polling_interval_ms", "max_concurrent_requests", "cleanup_interval_minutes")
INSTANCE_KEYS = ("queue_dir", "daemon_name", "workspace_dir", "timeout", "auto_start", "init")
FOREIGN_KEYS = ("default_instance", "log_level", "log_file", "port", "rate_limit", "security", "audit")
"""Of the MCP server that comes with Efrit's Lisp: its configuration may name the same instances."""
FOREIGN_INSTANCE_KEYS = ("max_concurrent", "environment")


class LocalInstance(Struct, frozen=True):
    """One entry of `instances`. `timeout` in seconds, for evals that name none; `init`: load the user's init file."""

    id: str
    queue_dir: Path
    daemon_name: str
    workspace_dir: Path
    timeout: float = 30.0
    auto_start: bool = True
    init: bool = False


class LocalSettings(Struct, frozen=True):
    """The whole file. `polling_interval` in seconds: the longest time between two polls for an answer.

    `missing`: the file was named by its caller, and is not there.
    """

    path: Path
    instances: Mapping[str, LocalInstance] = {}
    polling_interval: float = 0.5
    max_concurrent_requests: int = 20
    cleanup_interval: float = 600.0
    missing: bool = False

    def require_instances(self) -> Mapping[str, LocalInstance]:
        """Return `instances`. Raises `WrongSettings` where the file is missing."""
        if self.missing:
            raise WrongSettings(
                f"there is no configuration file {self.path}",
                f"correct the path, or have the file written: efrit start {DEFAULT}",
            )
        return self.instances

    def instance(self, name: str) -> LocalInstance:
        """Return the instance called `name`. Raises `InstanceNotFound`, `WrongSettings`."""
        self.require_instances()
        try:
            return self.instances[name]
        except KeyError:
            names = ", ".join(self.instances) or "none"
            raise InstanceNotFound(
                f"there is no instance {name!r} in {self.path} (there: {names})",
                f"start one with `efrit start {name}`, or name another",
            ) from None


def config_path(environment: Mapping[str, str]) -> Path:
    """Return EFRIT_CONFIG, else efrit/config.json in the user's configuration directory."""
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named).expanduser()
    return xdg_directory(environment, "XDG_CONFIG_HOME", "~/.config") / "efrit/config.json"


def xdg_directory(environment: Mapping[str, str], variable: str, default: str) -> Path:
    """Return a base directory of the user; like the specification, ignore a variable that is not absolute."""
    named = environment.get(variable) or ""
    return Path(named) if named.startswith("/") else Path(default).expanduser().absolute()


def state_directory() -> Path:
    """Return where queues lie: state that outlives a program and is of no use on another machine."""
    return xdg_directory(os.environ, "XDG_STATE_HOME", "~/.local/state") / "efrit"


def data_directory() -> Path:
    """Return where workspaces lie, and what Emacs keeps for itself."""
    return xdg_directory(os.environ, "XDG_DATA_HOME", "~/.local/share") / "efrit"


def legacy_home() -> Path:
    """Return the directory of earlier versions, out of which `legacy` moves their files."""
    return Path("~/.emacs.d/.efrit").expanduser()


def daemon_name(name: str, queue_dir: Path) -> str:
    """Return the name of the daemon of a queue: no two queues of one user share it, whatever they are called.

    Emacs finds a daemon by its name and the user alone.
    """
    # Importing hashlib costs more than this needs; the checksum only has to tell a user's few queues apart.
    return f"efrit-{name}-{zlib.crc32(os.fsencode(os.path.realpath(queue_dir))):08x}"


def new_instance(name: str) -> LocalInstance:
    """Return the instance `name` with the default settings. Raises `WrongSettings`."""
    if not _NAME.fullmatch(name):
        raise WrongSettings(
            f"{name!r} is not a name for an instance", "use letters, digits, '.', '_' and '-', 63 at most"
        )
    queue = state_directory() / "instances" / name / "queue"
    return LocalInstance(name, queue, daemon_name(name, queue), data_directory() / "instances" / name / "workspace")


def load_named(path: Path) -> LocalSettings:
    """Return the settings in `path`, which its caller named: where it is missing, there is no instance.

    Raises `WrongSettings`.
    """
    settings = load(path)
    return settings if path.exists() else replace(settings, instances={}, missing=True)


def load(path: Path) -> LocalSettings:
    """Return the settings in `path`; without a file, one instance called default. Raises `WrongSettings`."""
    document = read_document(path)
    _check_keys(path, document, KEYS, FOREIGN_KEYS)
    entries = _get(path, document, "instances", _object, None)
    if entries is None:
        entries = {DEFAULT: {}}
    limits = LocalSettings(path)
    instances: dict[str, LocalInstance] = {}
    for name, entry in entries.items():
        instance = _instance(path, name, entry)
        check_queue_is_unique(path, instances, instance)
        instances[name] = instance
    return LocalSettings(
        path,
        instances,
        polling_interval=_get(path, document, "polling_interval_ms", _positive, 500.0) / 1000,
        max_concurrent_requests=int(
            _get(path, document, "max_concurrent_requests", _positive, limits.max_concurrent_requests)
        ),
        cleanup_interval=60 * _get(path, document, "cleanup_interval_minutes", _positive, 10.0),
    )


def check_queue_is_unique(path: Path, instances: Mapping[str, LocalInstance], instance: LocalInstance) -> None:
    """Raise `WrongSettings` where another one of `instances` has the queue of `instance`.

    Both would be one daemon: to stop one stops the other, and work runs where nobody meant it to.
    """
    queue = os.path.realpath(instance.queue_dir)
    for other in instances.values():
        if other.id != instance.id and os.path.realpath(other.queue_dir) == queue:
            raise WrongSettings(
                f"{path}: {other.id} and {instance.id} cannot both have the queue_dir {instance.queue_dir}",
                "give each instance a directory of its own",
            )


def add_instance(settings: LocalSettings, instance: LocalInstance) -> LocalSettings:
    """Write `instance` into the file, so that other programs know it too. Raises `WrongSettings`.

    Only what differs from the defaults is written: those may change, and follow the environment.
    """
    usual = new_instance(instance.id)
    changed: dict[str, Any] = {}
    if instance.queue_dir != usual.queue_dir:
        changed["queue_dir"] = str(instance.queue_dir)
    if instance.daemon_name != daemon_name(instance.id, instance.queue_dir):
        changed["daemon_name"] = instance.daemon_name
    if instance.workspace_dir != usual.workspace_dir:
        changed["workspace_dir"] = str(instance.workspace_dir)
    if instance.init:
        changed["init"] = True

    def write(entries: dict[str, Any]) -> None:
        entry = entries.setdefault(instance.id, {})
        for key in ("queue_dir", "daemon_name", "workspace_dir", "init"):
            entry.pop(key, None)
        entry.update(changed)

    change_entries(settings, write)
    return replace(settings, instances={**settings.instances, instance.id: instance}, missing=False)


def remove_instance(
    settings: LocalSettings, name: str, delete_files: Callable[[], object] = lambda: None
) -> LocalSettings:
    """Take `name` out of the file, once `delete_files` has returned: a removal that was cut short can be repeated.

    Nobody else changes the file meanwhile. Raises `WrongSettings` and, where another process was faster,
    `InstanceNotFound`.
    """

    def take_out(entries: dict[str, Any]) -> None:
        if name not in entries:
            raise InstanceNotFound(
                f"there is no instance {name!r} in {settings.path} any more", "see `efrit instances`"
            )
        delete_files()
        del entries[name]

    change_entries(settings, take_out)
    return replace(settings, instances={key: instance for key, instance in settings.instances.items() if key != name})


def change_entries(settings: LocalSettings, change: Callable[[dict[str, Any]], object]) -> None:
    """Apply `change` to `instances` of the file, which is replaced in one step. Raises `WrongSettings`."""
    path = settings.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            document = read_document(path)
            change(document.setdefault("instances", {name: {} for name in settings.instances}))
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                temporary.write_text(json.dumps(document, indent=2) + "\n")
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space on its disk, and try again" if full else "check its permissions"
        raise WrongSettings(f"cannot write {path}: {error.strerror}", advice) from error


def written_entries(path: Path) -> Mapping[str, Any]:
    """Return `instances` as it is in the file, empty where there is none. Raises `WrongSettings`."""
    entries = read_document(path).get("instances")
    return entries if isinstance(entries, dict) else {}


def read_document(path: Path) -> dict[str, Any]:
    """Return the object in the file; an empty one without a file. Raises `WrongSettings`."""
    try:
        loaded = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except IsADirectoryError as error:
        raise WrongSettings(f"{path} is a directory", "name the configuration file, say config.json in it") from error
    except OSError as error:
        raise WrongSettings(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except ValueError as error:
        raise WrongSettings(f"{path} is not JSON: {error}", "correct it, or move it away") from error
    except RecursionError as error:
        raise WrongSettings(f"{path} is nested too deeply", "correct it, or move it away") from error
    return _object(loaded) if isinstance(loaded, dict) else _settings_error(path, "the file", "an object")


def _instance(path: Path, name: str, entry: Any) -> LocalInstance:
    prefix = f"instances.{name}"
    if not isinstance(entry, dict):
        _settings_error(path, prefix, "an object")
    _check_keys(path, entry, INSTANCE_KEYS, FOREIGN_INSTANCE_KEYS, prefix)
    usual = new_instance(name)

    def directory(key: str, default: Path) -> Path:
        text = _get(path, entry, key, _text, None, prefix)
        # The same one from wherever it is read; Emacs works in another directory, too.
        return default if text is None else path.parent.absolute() / Path(text).expanduser()

    queue = directory("queue_dir", usual.queue_dir)
    return LocalInstance(
        name,
        queue_dir=queue,
        daemon_name=_get(path, entry, "daemon_name", _text, None, prefix) or daemon_name(name, queue),
        workspace_dir=directory("workspace_dir", usual.workspace_dir),
        timeout=_get(path, entry, "timeout", _positive, usual.timeout, prefix),
        auto_start=_get(path, entry, "auto_start", _boolean, usual.auto_start, prefix),
        init=_get(path, entry, "init", _boolean, usual.init, prefix),
    )


def _check_keys(
    path: Path, table: Mapping[str, Any], names: tuple[str, ...], foreign: tuple[str, ...], at: str = ""
) -> None:
    for key in table:
        if key not in names and key not in foreign:
            raise load_entry_point("efrit.backend.local.unknown_keys:unknown_key")(path, at, key, names)


def _get(
    path: Path, table: Mapping[str, Any], key: str, read: Callable[[Any], Any], default: Any, at: str = ""
) -> Any:
    if key not in table:
        return default
    try:
        return read(table[key])
    except ValueError as error:
        return _settings_error(path, f"{at}.{key}" if at else key, str(error))


def _settings_error(path: Path, key: str, expected: str) -> Any:
    raise WrongSettings(f"{path}: {key} must be {expected}", "correct the file")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("an object")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("a text")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise ValueError("a number above 0")
    return float(value)
