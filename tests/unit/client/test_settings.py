"""The configuration file of this machine."""

import json
from pathlib import Path

import pytest

from efrit.client.errors import InstanceNotFound, WrongSettings
from efrit.client.local.settings import add_instance, config_path, load, new_instance

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
    ("value", "told"),
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
def test_what_cannot_be_is_told_with_its_place(tmp_path: Path, value: object, told: str) -> None:
    with pytest.raises(WrongSettings, match=told):
        load(written(tmp_path, value))


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(WrongSettings, match="is not JSON"):
        load(tmp_path / "config.json")


def test_an_unknown_instance_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InstanceNotFound, match=r"there: default, pod-1"):
        load(written(tmp_path, SEED)).instance("other")


def test_an_added_instance_is_there_for_the_next_reader_and_nothing_else_is_lost(tmp_path: Path) -> None:
    path = written(tmp_path, {**SEED, "of a later version": [1]})
    add_instance(load(path), new_instance("new"))
    assert list(load(path).instances) == ["default", "pod-1", "new"]
    assert json.loads(path.read_text())["of a later version"] == [1]


def test_an_instance_added_to_no_file_leaves_the_default_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.json"
    add_instance(load(path), new_instance("new"))
    assert list(load(path).instances) == ["default", "new"]


def test_the_file_is_where_the_environment_says() -> None:
    assert config_path({"EFRIT_CONFIG": "/a/b.json", "XDG_CONFIG_HOME": "/c"}) == Path("/a/b.json")
    assert config_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/efrit/config.json")
    assert config_path({}) == Path("~/.config/efrit/config.json").expanduser()
