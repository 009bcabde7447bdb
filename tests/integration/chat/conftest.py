"""An instance with a model: bridge and real Emacs as processes, and the server that plays the model's API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.running import KEY, Model
from tests.support.bridge_instance import Instance

# Ten times as eager as otherwise, so that a model that is down is given up within seconds.
INIT = "(setq efrit-model-first-delay 0.05 efrit-model-idle-seconds 6)\n"


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory, lisp: Path, model: Model) -> Iterator[dict[str, Instance]]:
    """Yield an instance for each protocol, by its name."""
    made: dict[str, Instance] = {}
    for protocol in ("tools", "elisp"):
        place = tmp_path_factory.mktemp(protocol)
        (place / "key").write_text(f"{KEY}\n")
        (place / "init.el").write_text(INIT)
        env = {
            "EFRIT_MODEL_NAME": "claude-test",
            "EFRIT_MODEL_BASE_URL": model.url,
            "EFRIT_MODEL_API_KEY_FILE": str(place / "key"),
            "EFRIT_MODEL_PROTOCOL": protocol,
            "EFRIT_INIT_FILE": str(place / "init.el"),
        }
        made[protocol] = Instance(place / "instance", lisp, env)
    with contextlib.ExitStack() as running_ones:
        for instance in made.values():
            running_ones.enter_context(instance)
        yield made


def begin(instance: Instance, rid: str, kind: str, content: str, **options: object) -> None:
    stored = instance.put(rid, content, type=kind, options={"timeout": 600, **options})
    assert stored.status_code == 201, stored.text


def clear(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
