"""`charts/scan` fails on what scanners find, and says what could not be looked for: a copy, with scanners of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from charts import image_scan
from tests.cluster import images
from tests.cluster.paths import REPOSITORY

SCANNERS = ("checkov", "cyclonedx-py", "pip-audit", "python")
OURS = ("helm", "our-python")
"""Stand-ins for what renders the chart and lists the images, where a test is about a scanner alone."""


class Copy:
    """A copy of what is scanned, with scanners that find nothing and write each call down."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for part in ("charts", "tests/cluster", "requirements"):
            shutil.copytree(REPOSITORY / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in (*SCANNERS, *OURS):
            self.scanner(name)

    def scanner(self, name: str, says: str = "", status: int = 0) -> None:
        path = self.root / "scanners" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"#!/bin/sh\necho {name} \"$@\" >> {self.root}/calls\ncat > /dev/null\necho '{says}'\nexit {status}\n"
        )
        path.chmod(0o755)

    def scan(self, *, renders: bool = False) -> subprocess.CompletedProcess[str]:
        scanners = self.root / "scanners"
        environment = {**os.environ, "SCANNERS": str(scanners), "EFRIT_CLUSTER_STATE": str(self.root / ".cluster")}
        if renders:
            environment["PYTHON"] = sys.executable
        else:
            environment["PYTHON"] = str(scanners / "our-python")
            environment["PATH"] = f"{scanners}:{os.environ['PATH']}"
        return subprocess.run(
            [self.root / "charts" / "scan"],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_all_that_the_chart_renders_and_each_dependency_of_the_operator_is_looked_at(copy: Copy) -> None:
    (copy.root / "scanners" / "helm").unlink()
    done = copy.scan(renders=True)

    assert done.returncode == 0, done.stderr
    calls = (copy.root / "calls").read_text()
    assert "checkov --config-file charts/checkov.yaml --directory " in calls
    assert "cyclonedx-py requirements requirements/operator.txt --outfile build/sbom/operator.cdx.json" in calls
    assert "pip-audit --requirement requirements/operator.txt --require-hashes" in calls
    assert "no dependency of the operator has a known vulnerability" in done.stdout
    assert "no image was built here, so none was looked at: `make images` first" in done.stderr


def test_what_checkov_finds_fails_the_scan(copy: Copy) -> None:
    copy.scanner("checkov", "Check: CKV_K8S_1", 1)
    done = copy.scan()
    assert done.returncode == 1
    assert "CKV_K8S_1" in done.stdout


def test_a_known_vulnerability_of_a_dependency_fails_the_scan(copy: Copy) -> None:
    copy.scanner("pip-audit", "idna 3.6 PYSEC-2024-60 3.7", 1)
    done = copy.scan()
    assert done.returncode == 1
    assert "PYSEC-2024-60" in done.stderr


def test_advisories_that_the_index_does_not_publish_are_said_to_be_missing(copy: Copy) -> None:
    copy.scanner("pip-audit", "idna: Dependency not found on PyPI and could not be audited: idna (3.6)")
    done = copy.scan()
    assert done.returncode == 0
    assert "known vulnerabilities were NOT looked for" in done.stderr
    assert "no dependency of the operator" not in done.stdout


def test_a_bill_of_materials_that_is_none_fails_the_scan(copy: Copy) -> None:
    bills = copy.root / "build" / "sbom"
    bills.mkdir(parents=True)
    (bills / "operator.cdx.json").write_text("{}")
    copy.scanner("python", "no bill of materials", 1)
    assert copy.scan().returncode == 1
    assert (copy.root / "calls").read_text().splitlines()[-1] == "python - build/sbom/operator.cdx.json"


@pytest.mark.parametrize(
    ("update", "upgrade", "expected"),
    [
        (
            0,
            "Reading\nInst libssl3t64 [3.5.4-1] (3.5.4-1~deb13u2 Debian-Security:13/stable-security [amd64])\nConf x",
            1,
        ),
        (0, "Reading", 0),
        (100, "", None),
    ],
    ids=["a fix", "none", "no archive"],
)
def test_a_package_that_debian_has_a_fix_for_is_found_by_apt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: int, upgrade: str, expected: int | None
) -> None:
    apt = tmp_path / "apt-get"
    apt.write_text(f"#!/bin/sh\ncase \"$*\" in *update) exit {update} ;; esac\necho '{upgrade}'\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(image_scan, "KEYRING", apt)

    newer = image_scan.outdated("Package: libssl3t64\n", "trixie")

    assert (None if newer is None else len(newer)) == expected


@pytest.mark.parametrize(("newer", "status"), [(["Inst libssl3t64"], 1), ([], 0), (None, 0)])
def test_an_image_with_a_package_that_debian_has_a_fix_for_fails_the_scan(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    newer: list[str] | None,
    status: int,
) -> None:
    files = {
        image_scan.STATUS: "Package: libssl3t64\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n",
        image_scan.RELEASE: "ID=debian\nVERSION_CODENAME=trixie\n",
    }
    monkeypatch.setattr(sys, "argv", ["image_scan", str(tmp_path)])
    monkeypatch.setattr(images, "built", lambda: {"localhost/efrit/emacs:30-dev": tmp_path / "archive"})
    monkeypatch.setattr(image_scan, "files_of", lambda archive, names: files)
    monkeypatch.setattr(image_scan, "outdated", lambda status, suite: newer)

    assert image_scan.main() == status

    [component] = json.loads((tmp_path / "emacs-30-dev.cdx.json").read_text())["components"]
    assert component["name"] == "libssl3t64"
    captured = capsys.readouterr()
    assert ("--refresh" in captured.out) == (status == 1)
    assert ("NOT looked for" in captured.err) == (newer is None)


def test_each_exception_of_the_scanners_is_explained() -> None:
    configuration = (REPOSITORY / "charts" / "checkov.yaml").read_text()
    skipped = configuration.partition("skip-check:\n")[2].splitlines()
    assert skipped
    assert all(re.fullmatch(r"  # .{30,}", comment) for comment in skipped[::2])
    assert all(re.fullmatch(r"  - CKV_K8S_\d+", check) for check in skipped[1::2])

    check = (REPOSITORY / "charts" / "check").read_text()
    ignored = re.findall(r"--ignore-test ([a-z-]+) \\", check)
    assert ignored
    assert [name for name in ignored if f"# {name.split('-request-')[0]}" not in check] == []


def test_the_security_policy_names_where_to_report_a_weakness() -> None:
    policy = (REPOSITORY / "SECURITY.md").read_text()
    assert '"Report a vulnerability"' in policy
    assert "[docs/threat-model.md](docs/threat-model.md)" in policy
