"""The settings of the bridge, as its environment has them."""

import pytest

from efrit.bridge.settings import Settings
from efrit.errors import ConfigurationError


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFRIT_MAX_PENDING", "7")
    monkeypatch.setenv("EFRIT_KILL_GRACE_SECONDS", "2.5")
    settings = Settings.load()
    assert (settings.limits().max_pending, settings.kill_grace_seconds) == (7, 2.5)
    assert settings.shared_dir is None
    monkeypatch.setenv("EFRIT_MAX_PENDING", "none")
    with pytest.raises(ConfigurationError, match="EFRIT_MAX_PENDING"):
        Settings.load()
