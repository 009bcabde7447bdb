"""Puts what the Emacs container needs into the volume both share: the Lisp files and run-emacs.

Runs before anything else of the bridge, and again on each of its starts, with an Emacs perhaps using the
files: each is replaced in one step, and only if it differs.
"""

import logging
import os
import secrets
from pathlib import Path

from efrit.errors import ConfigurationError

log = logging.getLogger(__name__)

RUN_EMACS = "run-emacs"
_SCRIPT = Path(__file__).with_name("run-emacs.sh")


def install(source: Path, shared: Path) -> int:
    """Copy `source`/*.el and *.elc to `shared`/lisp, write `shared`/run-emacs; return how many changed.

    Raises `ConfigurationError` if there is no Lisp at `source` or `shared` cannot be written.
    """
    files = sorted(path for path in _listed(source) if path.suffix in {".el", ".elc"})
    if not any(path.stem == "efrit-server" for path in files):
        raise ConfigurationError(f"{source} holds no efrit-server.el: set EFRIT_LISP_SOURCE")
    lisp = shared / "lisp"
    try:
        lisp.mkdir(parents=True, exist_ok=True)
        changed = sum(_put(path, lisp / path.name, 0o644) for path in files)
        names = {path.name for path in files}
        for stale in lisp.iterdir():
            # A byte-compiled file of an older version would be loaded before its new source.
            if stale.suffix in {".el", ".elc"} and stale.name not in names:
                stale.unlink()
                changed += 1
        changed += _put(_SCRIPT, shared / RUN_EMACS, 0o755)
    except OSError as error:
        raise ConfigurationError(f"cannot install the Lisp files into {shared}: {error}") from error
    if changed:
        log.info("installed %d files into %s", changed, shared)
    return changed


def _listed(source: Path) -> list[Path]:
    try:
        return list(source.iterdir())
    except OSError as error:
        raise ConfigurationError(f"cannot read the Lisp files in {source}: {error}") from error


def _put(source: Path, target: Path, mode: int) -> bool:
    """Make `target` a copy of `source`, its time included; return False if it was one."""
    data, stat = source.read_bytes(), source.stat()
    try:
        same = target.read_bytes() == data and target.stat().st_mode & 0o777 == mode
    except OSError:
        same = False
    if same:
        return False
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.chmod(mode)
        # Emacs prefers a compiled file to an older source by their times.
        os.utime(temporary, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return True
