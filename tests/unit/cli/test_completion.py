"""What the last word of a command line may become: the values too, not only commands and options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from efrit.backend.claims import Claim
from efrit.backend.interface import Handle, Instance, InstanceStatus, Phase, RequestReason, RequestState, Session
from efrit.backend.pools import Pool
from efrit.cli import completion
from efrit.cli.completion import bash, fish, run_complete, zsh


class Known:
    """A backend with two instances and two requests."""

    async def instances(self) -> list[Instance]:
        return [
            Instance("default", InstanceStatus.ACTIVE, "Ready", labels={"tier": "quick"}),
            Instance("build", InstanceStatus.ACTIVE, "Ready"),
        ]

    async def claims(self) -> list[Claim]:
        return [Claim("ada", "crew")]

    async def pools(self) -> list[Pool]:
        return [Pool("crew"), Pool("big")]

    async def requests(
        self, instance: str | None = None, *, limit: int | None = None, brief: bool = False
    ) -> list[RequestState]:
        requests = [
            RequestState(Handle("old", "default"), Phase.SUCCEEDED, RequestReason.SUCCEEDED, session=Session("s1")),
            RequestState(
                Handle("new", "build"), Phase.RUNNING, RequestReason.RUNNING, session=Session("s\x1b[2J\n:0")
            ),
        ]
        return [request for request in requests if instance in (None, request.handle.instance)]

    async def close(self, *, handed_over: bool = True) -> None:
        assert not handed_over


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(place: Any) -> Known:
        return Known()

    monkeypatch.setattr(completion, "open_backend", connect)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run_complete("efrit", words) == 0
    return [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (("ev",), ["eval"]),
        (("-n", "team", "ev"), ["eval"]),
        (("plan", "s"), ["show", "suspend"]),
        (("help", "pl"), ["plan"]),
        (("help", "plan", "a"), ["amend"]),
        (("eval", "--ret"), ["--return-context", "--retry"]),
        (("plan", "run", "--max-s"), ["--max-steps"]),
        (("eval", "-o", ""), ["json", "yaml", "name"]),
        (("eval", "--output=j"), ["--output=json"]),
        (("eval", "--output", "=", "j"), ["json"]),
        (("eval", "--output", "="), ["json", "yaml", "name"]),
        (("submit", "--type", "c"), ["command", "chat"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("stop", ""), ["default", "build"]),
        (("stop", "default", ""), []),
        (("stats", "default", ""), ["build"]),
        (("eval", "-i", "b"), ["build"]),
        (("eval", "-l", ""), ["tier=quick"]),
        (("eval", "--pool", "c"), ["crew"]),
        (("plan", "run", "--pool", ""), ["crew", "big"]),
        (("pools", ""), ["crew", "big"]),
        (("pools", "crew", ""), ["big"]),
        (("claim", "c"), ["crew"]),
        (("claims", ""), ["ada"]),
        (("release", "a"), ["ada"]),
        (("scale", ""), ["crew", "big"]),
        (("scale", "crew", ""), []),
        (("chat", "-s", ""), ["s1"]),
        (("wait", ""), ["new", "old"]),
        (("wait", "new", ""), ["old"]),
        (("requests", "-i", "build", ""), ["new"]),
        (("eval", ""), []),
        (("eval", "--", "--ret"), []),
        (("nothing", ""), ["eval", "command"]),
    ],
)
def test_a_word_is_completed(
    words: tuple[str, ...], candidates: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    completions = answer(capsys, *words)
    assert completions[-1] == ":4"
    assert completions[:-1][: len(candidates) or None] == candidates


@pytest.mark.parametrize("words", [("eval", "-f", ""), ("eval", "--dir", "x"), ("top", "--config", "")])
def test_names_of_files_are_left_to_the_shell(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, *words) == [":0"]


def test_contexts_come_from_the_kubeconfig(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("contexts:\n- {name: team-a}\n- {name: team-b}\n- wrong\n")
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert answer(capsys, "eval", "--context", "team-") == ["team-a", "team-b", ":4"]


def test_what_cannot_be_asked_completes_to_nothing_and_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(place: Any) -> Known:
        raise OSError("no cluster")

    monkeypatch.setattr(completion, "open_backend", refuse)
    assert answer(capsys, "stop", "") == [":4"]
    assert capsys.readouterr().err == ""


def test_bash_offers_what_the_program_answers() -> None:
    script = "efrit() { [[ $1/$2/$3 == __complete/wait/n ]] && printf 'new\\tits text\\nnext\\n:4\\n'; }\n"
    script += f"{bash()}\nCOMP_WORDS=(efrit wait n); COMP_CWORD=2; _efrit; echo ${{COMPREPLY[@]}}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("new next\n", "")


@pytest.mark.parametrize("option", ["-s nullglob", "-s failglob", "-os noglob", "-os posix"])
def test_bash_takes_no_description_for_a_pattern_whatever_its_options_are(option: str) -> None:
    script = "efrit() { printf -- '--instance\\t* is any\\n:4\\n'; }\n"
    script += f"{bash()}\nshopt {option}\nCOMP_WORDS=(efrit eval --i); COMP_CWORD=2; _efrit; echo ${{COMPREPLY[@]}}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("--instance\n", "")


def test_zsh_is_given_a_script_of_its_own() -> None:
    # In zsh the colon of ${COMP_WORDS[@]:1:COMP_CWORD} begins a modifier.
    assert "COMP_" not in zsh()


@pytest.mark.parametrize(
    "way", ['compdef() { }; eval "$script"', "print -r -- $script > _efrit; fpath=(.); autoload -Uz _efrit"]
)
def test_zsh_offers_what_the_program_answers_also_for_the_first_word(way: str, tmp_path: Path) -> None:
    program = "efrit() { [[ $1/$2/$3 == __complete/wait/n ]] && printf 'new one\\tits text\\nnext\\n:4\\n'; }\n"
    program += 'compadd() { print -r -- "$#: $@"; }; script=$1; words=(efrit wait n more); CURRENT=3\n'
    done = subprocess.run(
        ["zsh", "-f", "-c", f"{program}{way}\n_efrit", "zsh", zsh()],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("3: -- new one next\n", "")


@pytest.mark.parametrize(("shell", "script"), [("bash", bash()), ("zsh", zsh()), ("fish", fish())])
def test_the_script_of_each_shell_asks_the_program(shell: str, script: str) -> None:
    assert "efrit __complete" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=60)
