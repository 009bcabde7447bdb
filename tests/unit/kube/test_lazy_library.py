"""A package whose own code is not run for the sake of one of its submodules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def output(code: str, directory: Path) -> str:
    """Return what `code` prints in a Python of its own that finds the packages in `directory`."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(directory)!r})\n{code}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a directory with the package `whole`, which imports all of its submodules."""
    inner = tmp_path / "whole" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "whole" / "__init__.py").write_text(
        "print('loaded')\n__version__ = '1'\nfrom . import heavy, inner\n"
    )
    (tmp_path / "whole" / "heavy.py").write_text("NAME = 'heavy'\n")
    (inner / "__init__.py").write_text("import whole.inner.part as part\n")
    (inner / "part.py").write_text("NAME = 'part'\n")
    return tmp_path


DEFERRED = "from efrit.kube.lazy_library import defer_package\ndefer_package('whole')\n"


def test_a_submodule_is_imported_without_the_package(packages: Path) -> None:
    assert output(f"{DEFERRED}import whole.inner\nprint(whole.inner.part.NAME)", packages) == "part"


@pytest.mark.parametrize(
    "code",
    [
        "import whole\nprint(whole.heavy.NAME)",
        "from whole import heavy\nprint(heavy.NAME)",
        "import whole.inner\nprint(whole.heavy.NAME)",
    ],
)
def test_the_package_is_loaded_once_it_is_used(packages: Path, code: str) -> None:
    assert output(DEFERRED + code, packages) == "loaded\nheavy"


def test_its_version_is_its_own(packages: Path) -> None:
    assert output(f"{DEFERRED}import whole\nprint(whole.__version__)", packages) == "loaded\n1"


def test_a_name_that_it_does_not_have_is_missing(packages: Path) -> None:
    assert output(f"{DEFERRED}import whole\nprint(hasattr(whole, 'nothing'))", packages) == "loaded\nFalse"


def test_a_package_that_is_loaded_stays_as_it_is(packages: Path) -> None:
    assert output(f"import whole\n{DEFERRED}print(whole.heavy.NAME)", packages) == "loaded\nheavy"


def test_a_package_that_is_not_installed_is_left_alone(packages: Path) -> None:
    code = (
        "from efrit.kube.lazy_library import defer_package\ndefer_package('nowhere')\nprint('nowhere' in sys.modules)"
    )
    assert output(code, packages) == "False"


def test_the_client_loads_nothing_of_the_synchronous_half(tmp_path: Path) -> None:
    loaded = "[name for name in sys.modules if name.startswith('kubernetes.') and 'kubernetes.aio' not in name]"
    assert output(f"import efrit.kube.client, efrit.kube.connection\nprint({loaded})", tmp_path) == "[]"


LEFT_OUT = """
import sys
class LeftOut:
    def find_spec(self, name, path=None, target=None):
        if ".client.api." in name or ".client.models." in name:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, LeftOut())
import efrit.bridge.app, efrit.cli.program, efrit.backend.cluster.backend, efrit.controller.app, efrit.mcp.app
import asyncio
from kubernetes.aio.client import Configuration
from efrit.controller.act.kube import Kube
async def connect():
    await Kube(Configuration(host="http://127.0.0.1:1")).close()
asyncio.run(connect())
print("works")
"""
"""As in the operator's image, whose Dockerfile removes the library's classes for each kind and its calls."""


def test_no_program_needs_what_the_image_leaves_out_of_the_library(tmp_path: Path) -> None:
    assert output(LEFT_OUT, tmp_path) == "works"
