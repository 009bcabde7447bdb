"""Which backend is meant, and what is loaded for it."""

import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType

import msgspec
import pytest

import efrit.api
from efrit.backend.errors import WrongSettings
from efrit.backend.place import Place, backend_of


@pytest.mark.parametrize(
    ("place", "environment", "meant"),
    [
        (Place(), {}, "local"),
        (Place(namespace="team"), {}, "cluster"),
        (Place(context="c"), {}, "cluster"),
        (Place(kubeconfig=Path("k")), {}, "cluster"),
        (Place(), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "cluster"),
        (Place(), {"EFRIT_BACKEND": "cluster"}, "cluster"),
        (Place(backend="local"), {"EFRIT_BACKEND": "cluster"}, "local"),
        (Place(namespace="team"), {"EFRIT_BACKEND": "local"}, "local"),
    ],
)
def test_a_cluster_is_meant_where_one_is_named(place: Place, environment: dict[str, str], meant: str) -> None:
    assert backend_of(place, environment) == meant


def test_another_backend_is_refused() -> None:
    with pytest.raises(WrongSettings, match="no backend 'cloud'"):
        backend_of(Place(), {"EFRIT_BACKEND": "cloud"})


def test_an_eval_on_this_machine_loads_no_more_than_it_needs() -> None:
    """Most of what an eval costs is imports; a new one at the top of some module would be paid for unseen."""
    loaded = _loaded_by_an_eval()
    libraries = _packages_of(loaded) - {"efrit"}
    # What they import themselves differs between versions of Python. Modules with an underscore belong to them, too.
    expected = LIBRARIES | _packages_of(_loaded_by(f"import {', '.join(sorted(LIBRARIES))}"))
    new = sorted(name for name in libraries - expected if not name.startswith("_"))
    assert not new, (
        f"an `efrit eval` on a laptop imports {', '.join(new)}: `python -X importtime` says from where. "
        "Load what uses it by its name (tests/unit/test_entry_point.py), or add it to LIBRARIES "
        "if every eval needs it"
    )
    own = {name for name in loaded if name.startswith("efrit.")}
    new = sorted(own - OWN)
    assert not new, f"an `efrit eval` on a laptop imports {', '.join(new)}: add it to OWN if every eval needs it"


def test_our_own_modules_that_an_eval_loads_stay_small() -> None:
    sizes = {
        name: _bytecode(compile(Path(file).read_text(), name, "exec", dont_inherit=True))
        for name, file in _loaded_by_an_eval().items()
        if file and name.partition(".")[0] == "efrit"
    }
    size, largest = sum(sizes.values()), sorted(sizes, key=lambda name: -sizes[name])[:5]
    assert size <= MAX_OWN_BYTES, (
        f"the modules of ours that an `efrit eval` on a laptop loads have {size} bytes of bytecode, the bound is "
        f"{MAX_OWN_BYTES}; the largest are {', '.join(f'{name} ({sizes[name]})' for name in largest)}. Move what an "
        "eval does not need into other modules, or raise the bound"
    )


MAX_OWN_BYTES = 142_500
"""Bytecode of Python 3.11: what is loaded, and a fiftieth more. It is no measure of time."""

_LIBRARIES = """
abc argparse ast builtins codecs collections contextlib copyreg datetime decimal dis encodings enum
errno fcntl fnmatch functools gc genericpath gettext hashlib importlib inspect io ipaddress itertools
json keyword linecache marshal math msgspec ntpath numbers opcode operator os pathlib platform posix posixpath
re reprlib signal stat sys textwrap time token tokenize types typing typing_extensions unicodedata urllib uuid
warnings zipimport zlib
"""
LIBRARIES = set(_LIBRARIES.split())
"""What argparse, msgspec, pathlib and hashlib import, and the interpreter itself, in Python 3.11."""

_OWN = """
cli cli.app cli.blocking_eval cli.color cli.commands cli.durations cli.examples cli.exit_codes cli.options cli.output
cli.parser cli.place cli.program cli.results cli.streams cli.terminal_text cli.work
backend backend.errors backend.interface backend.place backend.placement backend.printed backend.whole_result
backend.local backend.local.answers backend.local.daemon backend.local.files backend.local.hosts
backend.local.instances backend.local.limits backend.local.model backend.local.mounts backend.local.poll_interval
backend.local.process backend.local.queues backend.local.request_file backend.local.settings
entry_point errors
protocol protocol.enums protocol.fields protocol.ids protocol.json_limits protocol.model protocol.process_place
protocol.request protocol.resource_case protocol.response protocol.session protocol.times
queue queue.answers queue.archive queue.cancel queue.durable queue.layout queue.process_place queue.recover
queue.space queue.submit queue.trust
"""
OWN = {f"efrit.{module}" for module in _OWN.split()}


@cache
def _loaded_by_an_eval() -> dict[str, str | None]:
    """Return the modules with the files that they come from."""
    return _loaded_by("import efrit.cli.app, efrit.cli.program, efrit.cli.blocking_eval, efrit.queue.archive")


def _loaded_by(statement: str) -> dict[str, str | None]:
    script = f"import sys; {statement}; each = dict(sys.modules); import json; "
    script += "print(json.dumps({name: getattr(module, '__file__', None) for name, module in each.items()}))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, env=_environment())
    assert done.stderr == ""
    return {name: file for name, file in json.loads(done.stdout).items() if name != "__main__"}


def _packages_of(modules: Iterable[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def _bytecode(code: CodeType) -> int:
    return len(code.co_code) + sum(_bytecode(each) for each in code.co_consts if isinstance(each, CodeType))


def _environment() -> dict[str, str]:
    places = (Path(efrit.api.__file__).parents[2], Path(msgspec.__file__).parents[1])
    return {"PYTHONPATH": ":".join(map(str, places))}
