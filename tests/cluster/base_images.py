"""Base images of the Dockerfiles: read from their ARG lines, checked for digests, pinned to what a registry has.

The ARG line is what every builder reads. In the tree it may name a tag, whose image gets the fixes of the day; what
is released names the digest as well. crane asks the registries, with the credentials of `docker login`.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import programs
from tests.cluster.progress import ClusterError

LIMIT = 60.0
"""Seconds for one call to a registry, with crane's retries."""

_ARGUMENT = re.compile(r"ARG\s+(\w+)=(\S+)")
# As distribution's grammar has it: an optional host, a path, a tag, an optional digest.
_REFERENCE = re.compile(
    r"(?P<tagged>(?:[\w.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*:\w[\w.-]{0,127})(?:@(?P<digest>.*))?", re.ASCII
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ELSEWHERE = re.compile(r"(?:--|[,=])from=([^\s,]+)")
_DIRECTIVE = re.compile(r"#\s*(?:syntax|escape)\s*=", re.IGNORECASE)
PIN = "run `make pin-bases` and commit the Dockerfiles"


@dataclass(frozen=True)
class BaseImage:
    """One ARG line: where it is, counted from 1, the argument and what it names."""

    path: Path
    line: int
    argument: str
    reference: str

    @property
    def tagged(self) -> str:
        """The reference without a digest; empty where it is none, or has no tag."""
        match = _REFERENCE.fullmatch(self.reference)
        return match["tagged"] if match else ""

    @property
    def digest(self) -> str | None:
        """What the reference has for a digest."""
        match = _REFERENCE.fullmatch(self.reference)
        return match["digest"] if match else None


def dockerfiles(repository: Path) -> list[Path]:
    """Return the Dockerfile of each image."""
    return sorted((repository / "images").glob("*/Dockerfile"))


def read(dockerfile: Path) -> tuple[list[BaseImage], list[str]]:
    """Return the base images of a Dockerfile, and what names one elsewhere than in an ARG line at the top."""
    bases: list[BaseImage] = []
    problems: list[str] = []
    used: set[str] = set()
    stages: set[str] = set()
    began = False
    for number, instruction, line in _lines(dockerfile):
        place = f"{dockerfile}:{number}"
        if instruction == "DIRECTIVE":
            problems.append(f"{place}: `{line}` changes how the file is read, by another image at worst: remove it")
        elif instruction == "ARG" and not began:
            if match := _ARGUMENT.fullmatch(line):
                bases.append(BaseImage(dockerfile, number, match[1], match[2]))
            else:
                problems.append(f"{place}: a base image is given as one `ARG NAME=image:tag`, this is `{line}`")
        elif instruction == "FROM":
            began = True
            source, *rest = [word for word in line.split()[1:] if not word.startswith("--")] or [""]
            argument = next((base.argument for base in bases if source == f"${{{base.argument}}}"), None)
            if argument:
                used.add(argument)
            elif source.lower() not in {*stages, "scratch"}:
                problems.append(f"{place}: `{line}` names a base image: name it in an ARG line before the first FROM")
            stages.update(stage.lower() for stage in rest[1:2])
        else:
            problems += [
                f"{place}: files come from the image {source}: name it in an ARG line, and make it a stage by FROM"
                for source in _ELSEWHERE.findall(line)
                if source.lower() not in stages and not source.isdigit()
            ]
    problems += [
        f"{base.path}:{base.line}: no FROM uses {base.argument}: remove the line"
        for base in bases
        if base.argument not in used
    ]
    return bases, problems


def _lines(dockerfile: Path) -> list[tuple[int, str, str]]:
    """Return number, instruction and text of each line but comments; a line that goes on with another has none."""
    lines = []
    continued = False
    for number, text in enumerate(dockerfile.read_text().splitlines(), start=1):
        line = text.strip()
        if _DIRECTIVE.match(line):
            lines.append((number, "DIRECTIVE", line))
        if not line or line.startswith("#"):
            continue
        lines.append((number, "" if continued else line.split()[0].upper(), line))
        continued = line.endswith("\\")
    return lines


def references(dockerfile: Path) -> dict[str, str]:
    """Argument -> base image, as the Dockerfile names it."""
    return {base.argument: base.reference for base in read(dockerfile)[0]}


def check(repository: Path) -> list[BaseImage]:
    """Return the base images of all Dockerfiles; ClusterError unless each is named by tag and digest."""
    bases, problems = _read_all(repository)
    for base in bases:
        if base.digest is None:
            why = f"{base.reference}, a tag that its registry may give to another image: {PIN}"
        elif not _DIGEST.fullmatch(base.digest):
            why = f"{base.reference}, whose digest is not `sha256:` and 64 hexadecimal digits: {PIN}"
        else:
            continue
        problems.append(f"{base.path}:{base.line}: {base.argument} is {why}")
    _refuse(problems, repository)
    return bases


def resolved(tagged: str, limit: float = LIMIT) -> str:
    """Return the digest that the tag has at its registry, once the registry has given what fits it."""
    digest = _crane("digest", tagged, limit).decode(errors="replace").strip()
    if not _DIGEST.fullmatch(digest):
        raise ClusterError(
            f"The registry of {tagged} gives `{_printable(digest)}` for a digest, which is not SHA-256."
        )
    verify(f"{tagged}@{digest}", limit)
    return digest


def verify(reference: str, limit: float = LIMIT) -> None:
    """Raise ClusterError unless the registry gives an image, or an index of images, that fits the digest."""
    manifest = _crane("manifest", reference, limit)
    # crane believes the header about manifests of the first schema, whatever their bytes are.
    if f"sha256:{hashlib.sha256(manifest).hexdigest()}" != reference.rpartition("@")[2]:
        raise ClusterError(f"What the registry gives for {reference} does not fit that digest: do not use it.")


def pin(repository: Path, resolve: Callable[[str], str] = resolved) -> list[BaseImage]:
    """Write the digest that the tag of each base image has now; nothing where one of them cannot be found out."""
    bases, problems = _read_all(repository)
    _refuse(problems, repository)
    digests = {tagged: resolve(tagged) for tagged in sorted({base.tagged for base in bases})}
    pinned = [
        BaseImage(base.path, base.line, base.argument, f"{base.tagged}@{digests[base.tagged]}") for base in bases
    ]
    for path in dockerfiles(repository):
        lines = path.read_text().splitlines(keepends=True)
        for base in pinned:
            if base.path == path:
                lines[base.line - 1] = f"ARG {base.argument}={base.reference}\n"
        path.write_text("".join(lines))
    return pinned


def _read_all(repository: Path) -> tuple[list[BaseImage], list[str]]:
    bases: list[BaseImage] = []
    problems: list[str] = []
    for path in dockerfiles(repository):
        of_one, problems_of_one = read(path)
        bases += of_one
        problems += problems_of_one
    if not bases:
        problems.append(f"{repository / 'images'}: no Dockerfile there names a base image in an ARG line")
    problems += [
        f"{base.path}:{base.line}: {base.argument} is {base.reference}, which is not image:tag"
        for base in bases
        if not base.tagged
    ]
    return bases, problems


def _refuse(problems: Sequence[str], repository: Path) -> None:
    if problems:
        lines = [problem.removeprefix(f"{repository}/") for problem in problems]
        raise ClusterError("\n  ".join(["The base images are not named as a release needs them:", *lines]))


def _crane(command: str, reference: str, limit: float) -> bytes:
    words = [str(programs.crane()), command, reference]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"The registry of {reference} did not answer within {limit:.0f} s: try again later."
        ) from None
    if done.returncode:
        messages = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        raise ClusterError(
            f"The registry of {reference} refuses it or cannot be reached: see whether the name is right and, "
            f"if it takes a login, `docker login` first. crane says: {_printable(messages[0])}"
        )
    return done.stdout


def _printable(text: str) -> str:
    """Return what others sent so that it cannot control a terminal, 500 characters of it."""
    return "".join(character if character.isprintable() else " " for character in text[:500])
