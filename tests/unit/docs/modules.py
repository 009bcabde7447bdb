"""`python -m tests.unit.docs.modules`: which modules the page about the house does not name, and their purpose."""

from __future__ import annotations

import ast
import re

from tests.cluster.paths import REPOSITORY
from tests.support.command_line import parser
from tests.unit.docs.code_names import PACKAGE, python_files

PAGE = "docs/dev/architecture.md"
_MODULE = re.compile(r"[\w/]*\w\.py")


def unnamed(page: str) -> list[str]:
    """Return the modules of the package, by their path in it, that a page names by no path that is theirs alone."""
    paths = [path.removeprefix(f"{PACKAGE}/") for path in python_files() if not path.endswith("__init__.py")]
    named = set()
    for name in set(_MODULE.findall(page)):
        name = name.removeprefix(f"{PACKAGE}/")
        meant = [path for path in paths if path == name] or [path for path in paths if path.endswith(f"/{name}")]
        named |= set(meant) if len(meant) == 1 else set()
    return [path for path in paths if path not in named]


def purpose(module: str) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(python_files()[f"{PACKAGE}/{module}"])) or ""
    return text.partition("\n")[0]


if __name__ == "__main__":
    parser(__doc__).parse_args()
    for module in unnamed((REPOSITORY / PAGE).read_text()):
        print(f"{module}: {purpose(module)}")
