"""Starts the server from anywhere: `python3 tests/model/server.py --port 0`, also where nothing but this folder is.

Relative imports need the package's name, and a file run by its path has none; nothing else is done here.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    # Not resolved: in a volume of a ConfigMap that would name the folder behind the link.
    package = Path(__file__).absolute().parent
    sys.path[0] = str(package.parent)
    runpy.run_module(package.name, run_name="__main__", alter_sys=True)
