"""Lists the Debian packages of the images that were built, and those that Debian has published a fix for since.

For each image a bill of materials in the directory that is named, as CycloneDX JSON. Where apt can be run and reaches
Debian's archive, the packages are compared with the security suite of their release; an older one fails the scan.
apt works in a directory of its own and changes nothing on this machine. A weakness that Debian has no fix for is not
found this way.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from email.parser import Parser
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from tests.cluster import images

STATUS = "var/lib/dpkg/status"
RELEASE = "usr/lib/os-release"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCES = """\
deb [signed-by={keyring}] http://deb.debian.org/debian {suite} main
deb [signed-by={keyring}] http://deb.debian.org/debian-security {suite}-security main
"""


def files_of(archive: Path, wanted: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of these files in a docker-archive, each from the last layer that has it."""
    found: dict[str, str] = {}
    with tarfile.open(archive) as image:
        for name in json.load(_open(image, image.getmember("manifest.json")))[0]["Layers"]:
            with _open(image, image.getmember(name)) as file, tarfile.open(fileobj=file) as layer:
                for member in layer:
                    if (path := member.name.removeprefix("./")) in wanted:
                        found[path] = _open(layer, member).read().decode()
    return found


def _open(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    if content is None:
        raise ValueError(f"{member.name} is not a file")
    return content


def installed(status: str) -> list[Mapping[str, str]]:
    """Return the fields of each package that dpkg's status file says is installed."""
    packages = [
        Parser().parsestr(paragraph, headersonly=True) for paragraph in status.split("\n\n") if paragraph.strip()
    ]
    return [dict(each.items()) for each in packages if each["Status"] == "install ok installed"]


def bill_of_materials(image: str, packages: list[Mapping[str, str]], suite: str) -> dict[str, Any]:
    """Return the packages as CycloneDX, each with its package URL."""
    components = []
    for each in packages:
        name, version = each["Package"], each["Version"]
        source = each.get("Source", name).split(" ")[0]
        place = f"{quote(name, safe='')}@{quote(version, safe='')}"
        purl = f"pkg:deb/debian/{place}?arch={each['Architecture']}&distro={suite}"
        properties = [{"name": "debian:source", "value": source}]
        components.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "properties": properties,
            }
        )
    subject = {"type": "container", "bom-ref": image, "name": image}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": subject},
        "components": components,
    }


def outdated(status: str, suite: str) -> list[str] | None:
    """Return what Debian has newer versions of, as apt says it; None where that cannot be found out here."""
    if shutil.which("apt-get") is None or not KEYRING.exists():
        return None
    with tempfile.TemporaryDirectory(prefix="efrit-apt-") as scratch:
        root = Path(scratch)
        # apt fetches as a user of its own.
        root.chmod(0o755)
        for each in ("lists/partial", "archives/partial"):
            (root / each).mkdir(parents=True)
        (root / "status").write_text(status)
        (root / "sources.list").write_text(SOURCES.format(keyring=KEYRING, suite=suite))
        where = {
            "Dir::State": root,
            "Dir::State::status": root / "status",
            "Dir::Cache": root,
            "Dir::Etc::sourcelist": root / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferences": "-",
            "Dir::Etc::preferencesparts": "-",
        }
        apt = ["apt-get", *(f"-o{name}={value}" for name, value in where.items())]
        # Without this a list that could not be fetched is a warning.
        update = [*apt, "-oAPT::Update::Error-Mode=any", "-qq", "update"]
        if subprocess.run(update, capture_output=True, check=False).returncode:
            return None
        upgrade = subprocess.run([*apt, "-s", "dist-upgrade"], capture_output=True, text=True, check=True)
        return [line for line in upgrade.stdout.splitlines() if line.startswith("Inst ")]


def main() -> int:
    """Scan each image that this checkout has built."""
    directory, failed = Path(sys.argv[1]), False
    archives = images.built()
    if not archives:
        print("charts/scan: no image was built here, so none was looked at: `make images` first", file=sys.stderr)
    for image, archive in archives.items():
        files = files_of(archive, (STATUS, RELEASE))
        suite = dict(line.split("=", 1) for line in files[RELEASE].splitlines() if "=" in line)["VERSION_CODENAME"]
        packages = installed(files[STATUS])
        path = directory / f"{image.rsplit('/', 1)[1].replace(':', '-')}.cdx.json"
        path.write_text(json.dumps(bill_of_materials(image, packages, suite), indent=1) + "\n")
        print(f"charts/scan: {path} lists the {len(packages)} Debian packages of {image}")
        found = outdated(files[STATUS], suite)
        if found is None:
            print("charts/scan: no archive of Debian here: fixes for them were NOT looked for", file=sys.stderr)
        elif found:
            failed = True
            print(
                "charts/scan: Debian has newer versions: `python -m tests.cluster images --refresh`", *found, sep="\n"
            )
        else:
            print(f"charts/scan: Debian {suite} and its security suite have no newer version of any of them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
