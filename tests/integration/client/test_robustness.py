"""Whatever a shell hands the program, it ends with an exit code and a sentence: never with a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.conftest import laptop
from tests.support.efrit_program import PROGRAM, Program, Terminal
from tests.support.kube import until
from tests.support.timeout import TIMEOUT


@pytest.fixture(scope="module")
def efrit() -> Iterator[Program]:
    """One instance for all: no test here leaves anything behind."""
    with laptop({"one": {}}) as made:
        yield made


def shell(program: Program, script: str, stdin: bytes = b"", **env: str) -> tuple[int, bytes, bytes]:
    """Run `script`, in which `efrit` is the program."""
    done = subprocess.run(
        ["bash", "-c", f'efrit() {{ "{PROGRAM}" "$@"; }}\n{script}'],
        env={**program.env, **env},
        cwd=program.cwd,
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT,
    )
    return done.returncode, done.stdout, done.stderr


UNWRITTEN = b"""efrit: cannot write: No space left on device
       write it elsewhere: work that was done is in `efrit requests`
"""
UNPRINTED = UNWRITTEN.replace(b"No space left on device", b"Bad file descriptor")
POSIX = {"LC_ALL": "POSIX", "LANG": ""}


@pytest.mark.parametrize(
    ("script", "stdin", "env", "code", "out", "err"),
    [
        ("efrit eval $'\"caf\\xe9\"'", b"", {}, 2, b"", b'an argument is not valid UTF-8: "caf\\xe9"'),
        ("efrit eval -", b'"caf\xe9"', {}, 2, b"", b"standard input is not valid UTF-8: byte 0xe9 at offset 4"),
        ("printf '\\xe9' > latin; efrit eval -f latin", b"", {}, 2, b"", b"latin is not valid UTF-8"),
        ("efrit eval -f /nothing", b"", {}, 2, b"", b"cannot read /nothing: No such file or directory"),
        ("efrit eval -f .", b"", {}, 2, b"", b"cannot read .: Is a directory"),
        ("efrit eval - < /dev/zero", b"", {}, 2, b"", b"standard input holds more than 16 MiB"),
        ("efrit eval '(+ 1 2)' <&-", b"", {}, 0, b"3\n", b""),
        ("efrit eval <&-", b"", {}, 2, b"", b"there is nothing to do"),
        ("efrit chat <&-", b"", {}, 2, b"", b"there is nothing to do"),
        ("efrit eval 1 >&-", b"", {}, 11, b"", UNPRINTED),
        ("efrit eval 1 <&- >&-", b"", {}, 11, b"", UNPRINTED),
        ("efrit help >&-", b"", {}, 11, b"", UNPRINTED),
        ("efrit eval nil --quiet -o name >&-", b"", {"PYTHONUNBUFFERED": "1"}, 11, b"", UNPRINTED),
        ("efrit help > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit --help > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit plan > /dev/full", b"", {"PYTHONUNBUFFERED": "1"}, 11, b"", UNWRITTEN),
        ("efrit --version > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit help | true", b"", {}, 0, b"", b""),
        ("efrit eval 1 2>&-", b"", {}, 0, b"1\n", b""),
        ("efrit evl 2>&- <&- >&-", b"", {}, 2, b"", b""),
        ("efrit eval 1 > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit eval 1 > /dev/full", b"", {"PYTHONUNBUFFERED": "1"}, 11, b"", UNWRITTEN),
        ("efrit eval '(make-string 100000 ?x)' > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit eval '(progn (sleep-for 1) 1)' > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit requests -o json > /dev/full", b"", {}, 11, b"", UNWRITTEN),
        ("efrit eval -", b"\xef\xbb\xbf(+ 1 2)\r\n", {}, 0, b"3\n", b""),
        ("efrit eval '\"é\"'", b"", {}, 0, b'"\xc3\xa9"\n', b""),
        ("efrit eval '(string 233 26085)'", b"", POSIX, 0, b'"\xc3\xa9\xe6\x97\xa5"\n', b""),
        ("efrit eval '(string 233 26085)'", b"", {"PYTHONIOENCODING": "ascii"}, 0, b'"\\xe9\\u65e5"\n', b""),
        ("efrit eval '(string #x3fffe9)'", b"", {}, 0, None, b""),
        ("efrit eval '(+ 1 2)' | true", b"", {}, 0, b"", b""),
        ("efrit eval ''", b"", {}, 2, b"", b"the content is empty"),
        ("efrit eval -i ../up 1", b"", {}, 8, b"", b"there is no instance '../up'"),
        ("efrit start ../up", b"", {}, 2, b"", b"is not a name for an instance"),
        ("mkdir gone; cd gone; rmdir ../gone; efrit eval 1", b"", {}, 2, b"", b"no longer exists"),
        ("mkdir $'caf\\xe9'; cd $'caf\\xe9'; efrit eval 1", b"", {}, 2, b"", b"caf\\xe9 is not valid UTF-8"),
        ("efrit eval -C /nothing 1", b"", {}, 2, b"", b"there is no directory /nothing"),
        (
            "efrit eval 1",
            b"",
            {"EFRIT_CONFIG": "/dev"},
            2,
            b"",
            b"/dev is a directory\n       name the configuration file",
        ),
        ("efrit instances", b"", {"EFRIT_BACKEND": "moon"}, 2, b"", b"there is no backend 'moon'"),
        ("efrit wait ''", b"", {}, 2, b"", b"NAME: the value is empty"),
        ("efrit logs $'a\\nb'", b"", {}, 8, b"", b"there is no request"),
    ],
)
def test_what_a_shell_hands_over_ends_with_a_code_and_a_sentence(
    efrit: Program, script: str, stdin: bytes, env: dict[str, str], code: int, out: bytes | None, err: bytes
) -> None:
    done = shell(efrit, script, stdin, **env)
    assert (done[0], b"Traceback" in done[2]) == (code, False), done
    assert out is None or done[1] == out, done
    assert err in done[2] if err else done[2] == b"", done
    assert done[2].count(b"efrit: ") <= 1, done


@pytest.mark.parametrize(
    ("words", "variable", "named"),
    [
        ("", "", "{home}/.kube/config"),
        ("", "/nothing", "/nothing"),
        ("", "/nothing:/nowhere", "/nothing:/nowhere"),
        ("--kubeconfig /none", "", "/none"),
    ],
)
def test_a_kubeconfig_that_is_not_there_is_named_once(efrit: Program, words: str, variable: str, named: str) -> None:
    env = {"KUBECONFIG": variable} if variable else {}
    code, out, err = shell(efrit, f"efrit {words} --namespace team instances", b"", **env)
    first, advice = err.decode().splitlines()
    assert (code, out, first) == (9, b"", f"efrit: there is no kubeconfig {named.format(home=efrit.env['HOME'])}")
    assert "set KUBECONFIG" in advice


def test_json_stays_json_where_the_locale_has_only_ascii(efrit: Program) -> None:
    program = Program("local", {**efrit.env, "PYTHONIOENCODING": "ascii"}, cwd=efrit.cwd)
    assert program.run("eval", "-o", "json", "(string 233 26085)").json["result"] == '"é日"'


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
@pytest.mark.parametrize(
    "command", ["eval 1", "submit 1", "start default", "instances", "requests", "top --once", "doctor"]
)
def test_a_home_that_cannot_be_written_is_named(efrit: Program, home: str, command: str) -> None:
    env = {name: value for name, value in efrit.env.items() if name != "EFRIT_CONFIG"}
    code, _, err = shell(Program("local", env, cwd=efrit.cwd), f"efrit {command}", HOME=home)
    assert b"Traceback" not in err
    assert b"internal error" not in err
    if command in ("eval 1", "submit 1", "start default"):
        assert code in (2, 9), err
        assert home.encode() in err


INTERRUPTER = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(os.environ["INTERRUPT_BY"]))
sys.meta_path.insert(0, Finder())
"""
"""Sends a signal to its own process when a module is looked for: early Ctrl-C without a race."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("eval 1", "efrit.cli.program"),
        ("eval 1", "argparse"),
        ("eval 1", "efrit.backend.interface"),
        ("eval 1", "efrit.cli.blocking_eval"),
        ("eval 1", "efrit.backend.local.queues"),
        ("eval 1", "efrit.cli.results"),
        ("instances", "asyncio"),
        ("instances", "efrit.backend.local.backend"),
        ("help eval", "efrit.cli.examples"),
    ],
)
def test_a_signal_while_it_loads_ends_it_without_a_traceback(
    efrit: Program, tmp_path: Path, command: str, module: str, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    env = {**efrit.env, "PYTHONPATH": str(tmp_path), "INTERRUPT_AT": module, "INTERRUPT_BY": str(int(number))}
    done = subprocess.run([PROGRAM, *command.split()], env=env, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode in (128 + number, -number), done
    assert done.stderr == ""


@pytest.mark.parametrize(
    "module", ["efrit.cli.event_loop", "asyncio", "efrit.cli.wait", "efrit.backend.local.backend"]
)
def test_ctrl_c_while_an_eval_at_a_terminal_turns_to_a_longer_wait_asks_as_later(
    efrit: Program, tmp_path: Path, module: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    env = {**efrit.env, "PYTHONPATH": str(tmp_path), "INTERRUPT_AT": module, "INTERRUPT_BY": str(int(signal.SIGINT))}
    program = Program("local", env, cwd=efrit.cwd)
    with Terminal(program, "eval", "--timeout", "10m", "(sleep-for 600)") as terminal:
        terminal.expect("[c]ancel")
        terminal.type("c\n")
        terminal.expect("Cancelled")
        assert terminal.end() == 6


def test_sigterm_leaves_the_work_and_says_how_to_come_back(efrit: Program) -> None:
    begun = Path(efrit.env["HOME"]) / "begun"
    form = '(progn (write-region "" nil "begun") (while (not (file-exists-p "end")) (sleep-for 0.05)) 7)'
    process = efrit.begin("eval", "--timeout", "10m", form)
    until(begun.exists, "it does not begin")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out, "Traceback" in err) == (143, "", False), err
    name = err.rpartition(" wait ")[2].strip().rstrip("`")
    (Path(efrit.env["HOME"]) / "end").touch()
    assert efrit.ok("wait", name) == "7\n"


def test_top_leaves_the_terminal_as_it_was_when_it_is_terminated(efrit: Program) -> None:
    with Terminal(efrit, "top", "--delay", "100ms") as terminal:
        terminal.expect("q quit")
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.expect("\x1b[?25h\x1b[?1049l")
        assert terminal.end() == 143


def test_a_port_that_is_used_is_named(efrit: Program) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("efrit-mcp")),
                "--transport",
                "http",
                "--auth",
                "none",
                "--port",
                str(port),
            ],
            env=efrit.env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert f"efrit-mcp: cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
