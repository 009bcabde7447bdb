"""Which backend is meant, and what is loaded for it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import efrit.api
import efrit.client
from efrit.client.errors import WrongSettings
from efrit.client.place import Place, backend_of


@pytest.mark.parametrize(
    ("place", "environment", "meant"),
    [
        (Place(), {}, "local"),
        (Place(namespace="team"), {}, "cluster"),
        (Place(context="c"), {}, "cluster"),
        (Place(kubeconfig=Path("k")), {}, "cluster"),
        (Place(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "cluster"),
        (Place(), {"EFRIT_BACKEND": "cluster"}, "cluster"),
        (Place(backend="local"), {"EFRIT_BACKEND": "cluster"}, "local"),
        (Place(namespace="team"), {"EFRIT_BACKEND": "local"}, "local"),
    ],
)
def test_a_cluster_is_meant_where_one_is_named(place: Place, environment: dict[str, str], meant: str) -> None:
    assert backend_of(place, environment) == meant


def test_another_backend_is_refused() -> None:
    with pytest.raises(WrongSettings, match="no backend 'cloud'"):
        backend_of(Place(), {"EFRIT_BACKEND": "cloud"})


def test_an_eval_on_this_machine_loads_nothing_heavy() -> None:
    """Each of these costs more than the eval; a new import at the top of some module would bring it in unseen."""
    heavy = (
        "pydantic",
        "asyncio",
        "kubernetes",
        "yaml",
        "httpx",
        "socket",
        "traceback",
        "secrets",
        "logging",
        "shutil",
        "lzma",
    )
    modules = "efrit.cli.app, efrit.cli.program, efrit.cli.blocking_eval, efrit.queue.archive"
    script = f"import sys, {modules}; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=_environment())
    assert (done.stdout, done.stderr) == ("[]\n", "")


def _environment() -> dict[str, str]:
    places = (Path(efrit.api.__file__).parents[2], Path(msgspec.__file__).parents[1])
    return {"PYTHONPATH": ":".join(map(str, places))}


def test_what_the_package_exports_is_found_when_it_is_asked_for() -> None:
    assert all(getattr(efrit.client, name) is not None for name in efrit.client.__all__)


def test_a_name_that_the_package_does_not_export_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = efrit.client.nothing
