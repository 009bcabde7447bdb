#!/usr/bin/env python3
"""Writes the JSON schemas that `kubeconform` checks the rendered chart against: `schemas.py` prints their folder.

kubeconform would download schemas. These come from the OpenAPI documents in the sources of the very Kubernetes that
the test cluster runs (tests/cluster/go.mod names it, Go's module cache holds it), so the check works offline and its
version cannot drift. They are strict: an unknown field is an error, as for `kubectl apply --validate=strict`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODULE = "k8s.io/kubernetes"
GO_MOD = Path(__file__).resolve().parent.parent / "tests" / "cluster"
# The API groups of what the chart renders; a kind of another group fails the check until its document is named here.
DOCUMENTS = (
    "api__v1",
    "apis__admissionregistration.k8s.io__v1",
    "apis__apiextensions.k8s.io__v1",
    "apis__apps__v1",
    "apis__networking.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
)
REFERENCE = "#/components/schemas/"
# What OpenAPI 3.0 says and JSON schema does not know.
FOREIGN_KEYWORDS = ("discriminator", "example", "externalDocs", "xml", "nullable")


def module() -> tuple[str, Path]:
    """Return the version of Kubernetes and the folder of its sources, fetching them if they are not there yet."""
    for command in (["go", "mod", "download", MODULE], ["go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", MODULE]):
        done = subprocess.run(command, cwd=GO_MOD, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"schemas: `{' '.join(command)}` in tests/cluster failed:\n{done.stderr.strip()}")
    version, _, folder = done.stdout.strip().partition(" ")
    return version, Path(folder)


def kinds(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a file name as kubeconform looks it up and the schema, for each kind of the document."""
    components = document["components"]["schemas"]
    for name, component in components.items():
        for kind in component.get("x-kubernetes-group-version-kind", ()):
            file = "-".join(part for part in (kind["kind"], kind["group"].split(".")[0], kind["version"]) if part)
            if "metadata" in component.get("properties", {}) and not kind["kind"].endswith("List"):
                yield f"{file.lower()}.json", _closed_over(name, components)


def _closed_over(name: str, components: dict[str, Any]) -> dict[str, Any]:
    wanted = [name]
    definitions: dict[str, Any] = {}
    while wanted:
        each = wanted.pop()
        if each not in definitions:
            definitions[each] = strict(components[each])
            wanted += re.findall(rf'"{REFERENCE}([^"]+)"', json.dumps(components[each]))
    # OpenAPI leaves these two optional in every kind; a manifest never may.
    definitions[name]["required"] = sorted({*definitions[name].get("required", ()), "apiVersion", "kind"})
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": f"#/definitions/{name}",
        "definitions": definitions,
    }


def strict(node: Any) -> Any:
    """Return the OpenAPI schema as a JSON schema whose objects take no field that they do not name."""
    if isinstance(node, list):
        return [strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {name: strict(schema) for name, schema in value.items()}
        elif key == "$ref":
            result[key] = value.replace(REFERENCE, "#/definitions/")
        elif key not in FOREIGN_KEYWORDS and not key.startswith("x-kubernetes-"):
            result[key] = strict(value)
    if result.get("type") == "object" and "properties" in result:
        result.setdefault("additionalProperties", False)
    return result


def write(folder: Path, sources: Path) -> None:
    """Write the schemas of all kinds, the folder appearing whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        for document in DOCUMENTS:
            path = sources / "api" / "openapi-spec" / "v3" / f"{document}_openapi.json"
            for file, schema in kinds(json.loads(path.read_text())):
                (new / file).write_text(json.dumps(schema))
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():  # somebody else was faster: theirs is the same
                raise


def main() -> None:
    """Print the folder of the schemas, after writing them if this version of them is not there yet."""
    version, sources = module()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "efrit-operator" / "schemas"
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    folder = cache / f"{version}-{recipe}"
    if not folder.is_dir():
        write(folder, sources)
    print(folder)


if __name__ == "__main__":
    main()
