"""The configuration file of this machine."""

import contextlib
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from efrit.backend.errors import InstanceNotFound, Refused, WrongSettings
from efrit.backend.interface import Setup
from efrit.backend.local.backend import LocalBackend
from efrit.backend.local.queues import LocalQueues
from efrit.backend.local.settings import (
    FOREIGN_INSTANCE_KEYS,
    FOREIGN_KEYS,
    INSTANCE_KEYS,
    KEYS,
    LocalSettings,
    add_instance,
    change_entries,
    config_path,
    daemon_name,
    load,
    load_named,
    new_instance,
    read_document,
    remove_instance,
    xdg_directory,
)
from efrit.backend.local.unknown_keys import foreign_keys

SEED = {
    "instances": {
        "default": {
            "queue_dir": "~/.emacs.d/.efrit/queues",
            "daemon_name": "efrit-default",
            "timeout": 30,
            "auto_start": True,
        },
        "pod-1": {
            "queue_dir": "/shared/efrit-instance-1/queues",
            "daemon_name": "efrit-ai-1",
            "timeout": 60,
            "auto_start": False,
        },
    },
    "polling_interval_ms": 500,
    "max_concurrent_requests": 20,
    "cleanup_interval_minutes": 10,
}


def written(path: Path, value: object) -> Path:
    file = path / "config.json"
    file.write_text(json.dumps(value))
    return file


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    settings = load(written(tmp_path, SEED))
    assert list(settings.instances) == ["default", "pod-1"]
    other = settings.instance("pod-1")
    assert (other.queue_dir, other.daemon_name) == (Path("/shared/efrit-instance-1/queues"), "efrit-ai-1")
    assert (other.timeout, other.auto_start) == (60, False)
    assert settings.instance("default").queue_dir == Path("~/.emacs.d/.efrit/queues").expanduser()
    assert (settings.polling_interval, settings.max_concurrent_requests, settings.cleanup_interval) == (0.5, 20, 600)


def test_without_a_file_there_is_one_instance_called_default(tmp_path: Path) -> None:
    settings = load(tmp_path / "nothing.json")
    assert dict(settings.instances) == {"default": new_instance("default")}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "the file must be an object"),
        ({"instances": []}, "instances must be an object"),
        ({"instances": {"a": 1}}, "instances.a must be an object"),
        ({"instances": {"a": {"queue_dir": ""}}}, "instances.a.queue_dir must be a text"),
        ({"instances": {"a": {"timeout": 0}}}, "instances.a.timeout must be a number above 0"),
        ({"instances": {"a": {"timeout": True}}}, "instances.a.timeout must be a number above 0"),
        ({"instances": {"a": {"auto_start": "yes"}}}, "instances.a.auto_start must be true or false"),
        ({"instances": {"../a": {}}}, "is not a name for an instance"),
        ({"polling_interval_ms": -1}, "polling_interval_ms must be a number above 0"),
    ],
)
def test_what_cannot_be_is_reported_with_its_place(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(WrongSettings, match=message):
        load(written(tmp_path, value))


def test_what_is_no_json_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(WrongSettings, match="is not JSON"):
        load(tmp_path / "config.json")


def test_json_that_is_nested_too_deeply_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 200_000)
    with pytest.raises(WrongSettings, match="is nested too deeply"):
        load(tmp_path / "config.json")


def test_an_unknown_instance_is_reported_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InstanceNotFound, match=r"there: default, pod-1"):
        load(written(tmp_path, SEED)).instance("other")


def test_an_added_instance_is_there_for_the_next_reader_and_nothing_else_is_lost(tmp_path: Path) -> None:
    path = written(tmp_path, {**SEED, "security": [1]})
    add_instance(load(path), new_instance("new"))
    assert list(load(path).instances) == ["default", "pod-1", "new"]
    assert json.loads(path.read_text())["security"] == [1]


def test_an_instance_added_to_no_file_leaves_the_default_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.json"
    add_instance(load(path), new_instance("new"))
    assert list(load(path).instances) == ["default", "new"]


def test_a_start_writes_the_file_that_was_named_and_missing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.json"
    named = load_named(path)
    with pytest.raises(WrongSettings, match="there is no configuration file"):
        named.instance("default")
    assert list(add_instance(named, new_instance("default")).require_instances()) == ["default"]
    assert list(load_named(path).require_instances()) == ["default"]


def test_the_file_is_where_the_environment_says() -> None:
    assert config_path({"EFRIT_CONFIG": "/a/b.json", "XDG_CONFIG_HOME": "/c"}) == Path("/a/b.json")
    assert config_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/efrit/config.json")
    assert config_path({}) == Path("~/.config/efrit/config.json").expanduser()


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have no file of this process become larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_that_cannot_be_written_stays_as_it_is_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}\n")
    with largest_file(4096), pytest.raises(WrongSettings, match=f"cannot write {path}"):
        change_entries(load(path), lambda entries: entries.update(a={"workspace": "w" * 8192}))
    assert (path.read_text(), {file.name for file in tmp_path.iterdir()}) == (
        "{}\n",
        {path.name, ".config.json.lock"},
    )


def test_an_added_instance_is_written_without_what_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    queue = tmp_path / "q"
    usual = new_instance("new")
    chosen = replace(usual, queue_dir=queue, daemon_name=daemon_name("new", queue), init=True)
    add_instance(add_instance(load(path), new_instance("plain")), chosen)
    written = json.loads(path.read_text())["instances"]
    assert written == {"default": {}, "plain": {}, "new": {"queue_dir": str(queue), "init": True}}
    assert load(path).instance("new") == chosen


def test_a_removed_instance_is_gone_for_the_next_reader(tmp_path: Path) -> None:
    path = written(tmp_path, SEED)
    remove_instance(load(path), "pod-1")
    assert list(load(path).instances) == ["default"]


def test_two_queues_never_share_a_daemon_name(tmp_path: Path) -> None:
    names = {daemon_name(name, tmp_path / place) for name in ("a", "b") for place in ("x", "y")}
    assert len(names) == 4
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert daemon_name("a", tmp_path / "link") == daemon_name("a", tmp_path / "x")


def test_two_instances_with_one_queue_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    queues = {"a": tmp_path / "q", "b": tmp_path / "link" / "q"}
    path = written(tmp_path, {"instances": {name: {"queue_dir": str(queue)} for name, queue in queues.items()}})
    with pytest.raises(WrongSettings, match="a and b cannot both have the queue_dir"):
        load(path)


@pytest.mark.parametrize(("value", "directory"), [("/s", "/s"), ("relative", "/default"), ("", "/default")])
def test_a_base_directory_that_is_not_absolute_is_ignored(value: str, directory: str) -> None:
    assert xdg_directory({"XDG_STATE_HOME": value}, "XDG_STATE_HOME", "/default") == Path(directory)


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, {key: []}) for key in KEYS]
    + [(f"instances.a.{key}", {"instances": {"a": {key: []}}}) for key in INSTANCE_KEYS],
)
def test_every_known_key_is_read(key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match=f": {key} must be "):
        load(written(tmp_path, value))


@pytest.mark.parametrize(
    ("value", "key", "advice"),
    [
        ({"max_requests": 3}, "max_requests", "did you mean 'max_concurrent_requests'?"),
        ({"xyzzy": 1}, "xyzzy", f"remove it, or use one of {', '.join(KEYS)}"),
        ({"instances": {"a": {"timeot": 5}}}, "instances.a.timeot", "did you mean 'timeout'?"),
        ({"instances": {"a": {}}, "timeout": 5}, "timeout", f"remove it, or use one of {', '.join(KEYS)}"),
        ({"k" * 100_000: 1}, "k" * 200, f"remove it, or use one of {', '.join(KEYS)}"),
    ],
)
def test_an_unknown_key_is_reported_with_the_key_that_was_meant(
    value: object, key: str, advice: str, tmp_path: Path
) -> None:
    path = written(tmp_path, value)
    with pytest.raises(WrongSettings) as refused:
        load(path)
    assert (refused.value.message, refused.value.advice) == (f"{path}: unknown key {key!r}", advice)


def test_keys_that_another_program_reads_are_left_alone(tmp_path: Path) -> None:
    entry = dict.fromkeys(FOREIGN_INSTANCE_KEYS, 1)
    path = written(tmp_path, {"instances": {"a": entry}} | dict.fromkeys(FOREIGN_KEYS, 1))
    settings = load(path)
    assert list(settings.instances) == ["a"]
    add_instance(settings, new_instance("b"))
    assert read_document(path)["instances"] == {"a": entry, "b": {}}
    assert len(foreign_keys(path)) == len(FOREIGN_KEYS) + len(FOREIGN_INSTANCE_KEYS)


def test_the_documented_file_has_no_unknown_key(tmp_path: Path) -> None:
    assert load(written(tmp_path, SEED)).instances
    assert foreign_keys(written(tmp_path, SEED)) == []
    assert foreign_keys(tmp_path / "nothing.json") == []


@pytest.mark.parametrize("key", ["queue_dir", "workspace_dir"])
def test_a_relative_directory_begins_at_the_file_wherever_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    written(tmp_path, {"instances": {"a": {key: "place"}}})
    (tmp_path / "below").mkdir()
    for directory, path in (("", "config.json"), ("below", "../config.json")):
        monkeypatch.chdir(tmp_path / directory)
        found = getattr(load(Path(path)).instance("a"), key)
        assert found.is_absolute()
        assert found.resolve() == tmp_path / "place"


def test_directories_below_a_relative_home_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "home")
    assert xdg_directory({}, "XDG_STATE_HOME", "~/.local/state") == tmp_path / "home/.local/state"


@pytest.mark.parametrize(
    ("setup", "problem"),
    [(Setup(queue_dir=""), "queue_dir is empty"), (Setup(workspace_dir=""), "workspace_dir is empty")],
)
async def test_a_start_takes_no_empty_directory_for_the_current_one(
    tmp_path: Path, setup: Setup, problem: str
) -> None:
    backend = LocalBackend(LocalQueues(LocalSettings(tmp_path / "config.json", {})))
    with pytest.raises(Refused, match=problem):
        await backend.start("two", setup)
