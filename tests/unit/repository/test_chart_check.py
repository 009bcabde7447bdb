"""`charts/check` names what is wrong with a chart: run on a copy with one change.

`make check` runs it on the chart as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CHART = "charts/efrit-operator"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for part in ("charts", "tests/cluster"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    # Without it a package `tests` that is elsewhere on Python's path would be taken for the copy's.
    shutil.copy(ROOT / "tests/__init__.py", tmp_path / "tests")
    return tmp_path


def check(repository: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    # The clone is on Python's path, as an editor or a profiler may have it.
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        **({"PATH": path} if path else {}),
    }
    return subprocess.run(
        [str(repository / "charts" / "check")], capture_output=True, text=True, check=False, env=environment
    )


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) >= 1, f"{file} has no {old!r}: this test is out of date"
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        pytest.param(
            f"{CHART}/values.yaml",
            "# -- Tag of the image",
            "# -- The tag",
            "README.md differs from what values.yaml and its templates say: run `make chart-docs`",
            id="stale table",
        ),
        pytest.param(
            f"{CHART}/values.yaml",
            "# -- Tag of the image",
            "# -- The tag",
            "values.schema.json differs from what values.yaml and its templates say: run `make chart-docs`",
            id="stale description in the schema",
        ),
        pytest.param(
            f"{CHART}/values.yaml",
            "\nreplicas: 2\n",
            "\nreplicas: 3\n",
            "README.md differs",
            id="stale default",
        ),
        pytest.param(
            f"{CHART}/README.md",
            "Installs the controller",
            "Installs a controller",
            "README.md differs",
            id="page changed in place of its template",
        ),
        pytest.param(
            f"{CHART}/README.md.gotmpl",
            ".AutoDescription",
            ".Nothing",
            "can't evaluate field Nothing",
            id="template of the page that cannot be rendered",
        ),
        pytest.param(
            f"{CHART}/values.yaml",
            "\nreplicas: 2\n",
            "\nreplicas: [\n",
            "FAILED: README",
            id="values that are no YAML",
        ),
        pytest.param(
            f"{CHART}/values.yaml",
            "  # -- Make a ServiceAccount for the controller.\n",
            "",
            "serviceAccount.create needs a comment",
            id="value without a comment",
        ),
        pytest.param(
            f"{CHART}/values.yaml",
            "# -- Controllers.",
            "# -- New.\nnovelty: 1\n\n# -- Controllers.",
            "values.schema.json does not know novelty",
            id="value that the schema does not know",
        ),
        pytest.param(
            f"{CHART}/values.yaml",
            '  # -- Name of it; empty: the full name of the release, or `default` when none is made.\n  name: ""\n',
            "",
            "values.yaml does not have serviceAccount.name, which values.schema.json knows",
            id="value that only the schema knows",
        ),
        pytest.param(
            f"{CHART}/templates/service.yaml",
            "type: ClusterIP",
            'type: {{ include "nothing" . }}',
            "FAILED: helm lint",
            id="template that cannot be rendered",
        ),
        pytest.param(
            f"{CHART}/templates/service.yaml",
            "targetPort: http",
            "targetPorts: http",
            "FAILED: kubeconform",
            id="field that Kubernetes does not know",
        ),
        pytest.param(
            f"{CHART}/templates/service.yaml",
            "kind: Service\n",
            "kind: Sevrice\n",
            "FAILED: kubeconform",
            id="kind that Kubernetes does not know",
        ),
        pytest.param(
            f"{CHART}/templates/deployment.yaml",
            "readOnlyRootFilesystem: true",
            "readOnlyRootFilesystem: false",
            "FAILED: kube-score",
            id="writable root file system",
        ),
    ],
)
def test_a_broken_chart_is_refused_with_the_reason(copy: Path, file: str, old: str, new: str, message: str) -> None:
    change(copy / file, old, new)
    done = check(copy)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_missing_program_is_named_with_what_to_do(copy: Path, tmp_path: Path) -> None:
    # The copy's programs are looked for in a folder named by its go.mod: another go.mod, another (empty) folder.
    with (copy / "tests/cluster/go.mod").open("a") as file:
        file.write("// none is built for this one\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "dirname", "mktemp", "rm"):
        program = shutil.which(name)
        assert program is not None
        (tools / name).symlink_to(program)
    done = check(copy, path=str(tools))
    assert done.returncode != 0
    assert "there is no helm: run `make tools`" in done.stderr
