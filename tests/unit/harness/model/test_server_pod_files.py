"""The files a pod gets are all the server needs: a folder as a ConfigMap mounts it, the standard library, no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx

from tests.model.scenario import read_folder
from tests.support.model_service import scenario_files, server_command, server_files
from tests.support.plain_http import NO_TLS
from tests.support.timeout import TIMEOUT

MAX_BYTES = 1024 * 1024


def mounted(folder: Path, files: dict[str, str]) -> Path:
    """Write FILES as the kubelet does: in a folder of their own, behind links."""
    data = folder / "..2026_01_01"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for name, text in files.items():
        (data / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


def test_the_server_runs_from_its_files_alone(tmp_path: Path) -> None:
    package = mounted(tmp_path / "model", server_files())
    scenarios = mounted(tmp_path / "scenarios", scenario_files())
    _, script, *words = server_command(str(package), str(scenarios))
    words[words.index("--port") + 1] = "0"
    words[words.index("--host") + 1] = "127.0.0.1"
    # -S: no packages but those of Python itself; -E: nothing from the environment.
    command = [sys.executable, "-S", "-E", script, *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
            assert httpx.get(f"{url}/_health", timeout=TIMEOUT, verify=NO_TLS).json() == {"status": "ok"}
            assert httpx.get(f"{url}/_scenarios", timeout=TIMEOUT, verify=NO_TLS).json() == sorted(
                read_folder(scenarios)
            )
        finally:
            process.terminate()
        assert process.wait(TIMEOUT) == 0


def test_a_config_map_holds_them() -> None:
    for files in (server_files(), scenario_files()):
        assert sum(len(name) + len(text.encode()) for name, text in files.items()) < MAX_BYTES / 2
