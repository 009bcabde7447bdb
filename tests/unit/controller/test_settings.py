"""settings.py: what the environment says, and what is said about it when it is wrong."""

from __future__ import annotations

import pytest

from efrit.controller.model.config import ControllerConfig, RolloutLimits
from efrit.controller.settings import Settings
from efrit.errors import ConfigurationError
from tests.support.factory import seconds

LEAST = {"EFRIT_OPERATOR_IMAGE": "operator:1", "EFRIT_EMACS_IMAGE": "emacs:30"}


def load(**variables: str) -> Settings:
    return Settings.load({**LEAST, **{f"EFRIT_{name}": value for name, value in variables.items()}})


def test_two_images_are_enough() -> None:
    settings = load()

    assert settings.controller_config() == ControllerConfig(bridge_image="operator:1", emacs_image="emacs:30")
    assert settings.watch_namespaces == ()


@pytest.mark.parametrize(
    ("text", "namespaces"), [("", ()), ("a", ("a",)), ("a,b", ("a", "b")), (" a , b ,", ("a", "b")), (",", ())]
)
def test_namespaces_are_a_list_with_commas(text: str, namespaces: tuple[str, ...]) -> None:
    assert load(WATCH_NAMESPACES=text).watch_namespaces == namespaces


def test_what_decisions_depend_on_is_passed_on() -> None:
    config = load(
        IMAGE_PULL_POLICY="Always",
        IMAGE_PULL_SECRETS="one,two",
        OPERATOR_NAMESPACE="ops",
        BRIDGE_RESOURCES='{"limits": {"memory": "1Gi"}}',
        EMACS_RESOURCES='{"limits": {"memory": "3Gi"}}',
        TARGET_GRACE_SECONDS="5",
    ).controller_config()

    assert (config.image_pull_policy, config.image_pull_secrets) == ("Always", ("one", "two"))
    assert (config.operator_namespace, config.target_grace) == ("ops", seconds(5))
    assert config.bridge_resources == {"limits": {"memory": "1Gi"}}
    assert config.emacs_resources == {"limits": {"memory": "3Gi"}}


def test_who_made_a_request_is_believed_only_where_that_is_said() -> None:
    assert not load().controller_config().is_requester_noted
    assert load(REQUESTER="true").controller_config().is_requester_noted


def test_how_changed_templates_are_rolled_out_is_passed_on() -> None:
    config = load(
        ROLLOUT_MAX_CONCURRENT="7",
        ROLLOUT_MAX_CONCURRENT_PER_NAMESPACE="3",
        ROLLOUT_MAX_HOLD_SECONDS="60",
        ROLLOUT_PROGRESS_DEADLINE_SECONDS="30",
    ).controller_config()

    assert config.rollout == RolloutLimits(7, 3, seconds(60), seconds(30))


def test_an_empty_variable_is_an_unset_one() -> None:
    assert load(HTTP_PORT="", BRIDGE_RESOURCES="", LEASE_NAME="") == load()


def test_variables_of_somebody_else_are_left_alone() -> None:
    assert Settings.load({**LEAST, "EFRIT_UNKNOWN": "x", "HTTP_PORT": "1"}) == load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IMAGE_PULL_POLICY", "Sometimes"),
        ("HTTP_PORT", "70000"),
        ("LEASE_SECONDS", "1"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
        ("WORKERS", "0"),
        ("ROLLOUT_MAX_CONCURRENT", "0"),
        ("ROLLOUT_MAX_CONCURRENT_PER_NAMESPACE", "0"),
        ("ROLLOUT_MAX_HOLD_SECONDS", "-1"),
        ("ROLLOUT_PROGRESS_DEADLINE_SECONDS", "0"),
        ("BRIDGE_RESOURCES", "{not json"),
        ("BRIDGE_RESOURCES", "[]"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"EFRIT_{name}: "):
        load(**{name: value})


def test_every_missing_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"EFRIT_OPERATOR_IMAGE: .*EFRIT_EMACS_IMAGE: "):
        Settings.load({})


@pytest.mark.parametrize("level", ["debug", "INFO", "Warning"])
def test_log_levels_are_written_as_people_write_them(level: str) -> None:
    assert load(LOG_LEVEL=level).log_level == level
