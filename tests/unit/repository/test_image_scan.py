"""charts/image_scan.py: the bill of materials of an image comes from what dpkg says in its layers."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from charts.image_scan import RELEASE, STATUS, bill_of_materials, files_of, installed

PACKAGES = """\
Package: libstdc++6
Status: install ok installed
Architecture: amd64
Source: gcc-14 (14.2.0-19)
Version: 14.2.0-19
Description: a library
 of several lines

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: git
Status: install ok installed
Architecture: amd64
Version: 1:2.47.3-0+deb13u1
"""


def _tar(files: dict[str, str | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def test_the_packages_of_the_last_layer_are_listed_by_their_urls(tmp_path: Path) -> None:
    layers = {
        "one.tar": _tar({f"./{STATUS}": "Package: old\nStatus: install ok installed\n", RELEASE: "ID=debian\n"}),
        "two.tar": _tar({STATUS: PACKAGES, "etc/passwd": "root"}),
    }
    archive = tmp_path / "image.tar"
    archive.write_bytes(_tar({**layers, "manifest.json": json.dumps([{"Layers": list(layers)}])}))
    files = files_of(archive, (STATUS, RELEASE))
    assert files == {STATUS: PACKAGES, RELEASE: "ID=debian\n"}
    bill = bill_of_materials("efrit/emacs:30", installed(files[STATUS]), "trixie")
    assert [component["purl"] for component in bill["components"]] == [
        "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=trixie",
        "pkg:deb/debian/git@1%3A2.47.3-0%2Bdeb13u1?arch=amd64&distro=trixie",
    ]
    assert [component["properties"][0]["value"] for component in bill["components"]] == ["gcc-14", "git"]
