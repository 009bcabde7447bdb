"""Where an instance keeps its files, where its work begins, whose init file it loads, and what is left of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client.conftest import laptop
from tests.support.efrit_program import Program


@pytest.fixture
def fresh() -> Iterator[Program]:
    with laptop({}) as made:
        Path(made.env["EFRIT_CONFIG"]).unlink()
        yield made


def home(program: Program) -> Path:
    return Path(program.env["HOME"])


def queue(program: Program, name: str = "default") -> Path:
    return home(program) / ".local/state/efrit/instances" / name / "queue"


def instance_names(program: Program) -> list[str]:
    return program.ok("instances", "-o", "name").split()


def test_a_fresh_machine_gets_xdg_directories_and_no_emacs_directory(fresh: Program) -> None:
    fresh.ok("eval", "(progn (do-auto-save t) 1)")
    assert (queue(fresh) / "heartbeat").exists()
    assert (home(fresh) / ".local/share/efrit/instances/default/workspace").is_dir()
    assert not (home(fresh) / ".emacs.d").exists()
    own = f'"{home(fresh)}/.local/share/efrit/emacs/"\n'
    assert fresh.ok("eval", "(expand-file-name user-emacs-directory)") == own


def test_the_directories_follow_the_environment(fresh: Program) -> None:
    fresh.env |= {"XDG_STATE_HOME": str(home(fresh) / "s"), "XDG_DATA_HOME": str(home(fresh) / "d")}
    fresh.env["XDG_CONFIG_HOME"] = str(home(fresh) / "c")
    assert fresh.ok("eval", '(getenv "XDG_CONFIG_HOME")') == f'"{home(fresh)}/c"\n'
    assert (home(fresh) / "s/efrit/instances/default/queue/heartbeat").exists()
    assert (home(fresh) / "d/efrit/instances/default/workspace").is_dir()


def as_an_earlier_version_left_it(program: Program) -> Path:
    """Move a queue and a workspace to where they were once; return that place."""
    program.ok("eval", "1")
    name = program.ok("submit", "'kept").strip()
    program.ok("wait", name)
    program.ok("stop", "default")
    old = home(program) / ".emacs.d/.efrit"
    old.mkdir(parents=True)
    queue(program).rename(old / "queues")
    (home(program) / ".local/share/efrit/instances/default/workspace").rename(old / "workspace")
    (old / "workspace/mine").write_text("work")
    shutil.rmtree(home(program) / ".local")
    return old


def test_files_of_an_earlier_version_are_moved_once_and_the_move_is_reported(fresh: Program) -> None:
    old = as_an_earlier_version_left_it(fresh)
    first = fresh.run("requests", "-o", "name")
    assert f"moved the files of default from {old} to" in first.err
    assert first.out.strip()
    assert (home(fresh) / ".local/share/efrit/instances/default/workspace/mine").read_text() == "work"
    assert not (home(fresh) / ".emacs.d").exists()
    assert fresh.run("eval", "1").err == ""


def test_a_daemon_of_an_earlier_version_is_used_where_it_is_until_it_is_stopped(fresh: Program) -> None:
    old = as_an_earlier_version_left_it(fresh)
    config = Path(fresh.env["EFRIT_CONFIG"])
    place = {
        "queue_dir": str(old / "queues"),
        "workspace_dir": str(old / "workspace"),
        "daemon_name": "efrit-default",
    }
    shutil.copytree(old, home(fresh) / "copy")
    config.write_text(json.dumps({"instances": {"default": {**place, "queue_dir": f"{old}/../.efrit/queues"}}}))
    fresh.ok("start", "default")
    # What `start` once wrote into the file is the old default, not a wish.
    config.write_text(json.dumps({"instances": {"default": place}}))
    assert fresh.ok("eval", "(+ 1 2)") == "3\n"
    assert (old / "queues/heartbeat").exists()
    fresh.ok("stop", "default")
    assert "moved the files of default" in fresh.run("instances").err
    assert json.loads(config.read_text()) == {"instances": {"default": {}}}
    assert fresh.ok("eval", "2") == "2\n"


def test_a_configured_queue_stays_where_it_is(fresh: Program) -> None:
    old = as_an_earlier_version_left_it(fresh)
    Path(fresh.env["EFRIT_CONFIG"]).write_text(
        '{"instances": {"default": {"queue_dir": "~/.emacs.d/.efrit/queues"}}}'
    )
    done = fresh.run("eval", "1")
    assert (done.out, done.err) == ("1\n", "")
    assert (old / "queues/heartbeat").exists()


def test_evals_begin_in_the_directory_of_the_caller(fresh: Program) -> None:
    (home(fresh) / "project").mkdir()
    fresh.cwd = home(fresh) / "project"
    assert fresh.ok("eval", "default-directory") == f'"{fresh.cwd}/"\n'
    fresh.ok("eval", '(write-region "x" nil "made")')
    assert (fresh.cwd / "made").read_text() == "x"
    assert fresh.ok("eval", "-C", "..", "default-directory") == f'"{home(fresh)}/"\n'
    assert fresh.ok("eval", "--dir", "/", '(shell-command-to-string "pwd")') == '"/\n"\n'
    done = fresh.run("eval", "-C", "nowhere", "1")
    assert done.code == 2
    assert f"there is no directory {fresh.cwd}/nowhere" in done.err


def test_work_whose_directory_is_gone_when_it_runs_is_rejected(fresh: Program) -> None:
    place = home(fresh) / "gone"
    place.mkdir()
    fresh.ok("eval", "1")
    name = fresh.ok("submit", "--timeout", "10m", '(while (not (file-exists-p "go-on")) (sleep-for 0.05))').strip()
    behind = fresh.ok("submit", "-C", str(place), '(write-region "" nil "/tmp/never")').strip()
    place.rmdir()
    (home(fresh) / "go-on").touch()
    fresh.ok("wait", name)
    done = fresh.run("wait", behind)
    assert done.code == 10
    assert f"There is no directory {place}/" in done.err


def test_commands_begin_in_the_directory_of_the_caller(on_this_machine: Program) -> None:
    project = home(on_this_machine) / "some project"
    project.mkdir()
    command = [
        "command",
        "-C",
        str(project),
        "-o",
        "json",
        "Write my favourite colour to colour.txt. (scenario=question)",
    ]
    session = on_this_machine.run(*command).json["session"]["id"]
    on_this_machine.ok("command", "-C", str(project), "--session", session, "Blue")
    assert (project / "colour.txt").read_text() == "Blue"


def test_the_users_init_file_is_loaded_only_where_it_is_asked_for(fresh: Program) -> None:
    (home(fresh) / ".config/emacs").mkdir(parents=True)
    (home(fresh) / ".config/emacs/init.el").write_text("(setq mine 7)\n")
    assert fresh.ok("eval", "(boundp 'mine)") == "nil\n"
    fresh.ok("stop", "default")
    fresh.ok("start", "default", "--init")
    assert fresh.ok("eval", "mine") == "7\n"
    fresh.ok("restart", "default")
    assert fresh.ok("eval", "mine") == "7\n"
    fresh.ok("stop", "default")
    fresh.ok("start", "default", "--no-init")
    assert fresh.ok("eval", "(boundp 'mine)") == "nil\n"


def test_a_broken_init_file_is_reported_by_start_and_by_doctor(fresh: Program) -> None:
    (home(fresh) / ".config/emacs").mkdir(parents=True)
    (home(fresh) / ".config/emacs/init.el").write_text('(error "No such theme")\n')
    done = fresh.run("start", "default", "--init")
    assert (done.code, "the init file of default failed" in done.err) == (0, True), done
    assert "No such theme" in (queue(fresh) / "daemon.log").read_text()
    doctor = fresh.run("doctor")
    assert (doctor.code, "its init file failed" in doctor.out) == (1, True), doctor


def test_unnamed_work_goes_to_default_whatever_else_is_idle(fresh: Program) -> None:
    fresh.ok("start", "other")
    assert fresh.run("eval", "-o", "json", "1").json["instance"] == "default"
    fresh.ok("stop", "default")
    assert fresh.run("eval", "-o", "json", "1").json["instance"] == "default"
    busy = fresh.ok("submit", "--timeout", "10m", "(sleep-for 600)").strip()
    name = fresh.ok("submit", "1").strip()
    assert fresh.state(name)["instance"] == "default"
    assert fresh.run("eval", "-i", "*", "-o", "json", "1").json["instance"] == "other"
    fresh.ok("cancel", busy)


def test_a_start_that_fails_leaves_no_configuration(fresh: Program) -> None:
    fresh.env["EFRIT_EMACS"] = shutil.which("false") or "/bin/false"
    assert fresh.run("start", "twoo").code == 9
    assert not Path(fresh.env["EFRIT_CONFIG"]).exists()
    assert instance_names(fresh) == ["default"]


def test_rm_removes_a_stopped_instance_and_its_queue_and_keeps_its_workspace(fresh: Program) -> None:
    fresh.ok("start", "two")
    done = fresh.run("rm", "two")
    assert (done.code, "efrit stop two" in done.err) == (2, True), done
    fresh.ok("stop", "two")
    workspace = home(fresh) / ".local/share/efrit/instances/two/workspace"
    assert str(workspace) in fresh.ok("rm", "two")
    assert instance_names(fresh) == ["default"]
    assert not queue(fresh, "two").exists()
    assert workspace.is_dir()
    fresh.ok("start", "two")
    fresh.ok("stop", "two")
    fresh.ok("rm", "two", "--files")
    assert not workspace.exists()
    assert fresh.run("rm", "two").code == 8


def test_rm_leaves_directories_that_the_user_chose(fresh: Program) -> None:
    mine = home(fresh) / "mine"
    fresh.ok("start", "two", "--queue-dir", str(mine))
    fresh.ok("stop", "two")
    assert str(mine) in fresh.ok("rm", "two", "--files")
    assert (mine / "claims.log").exists()


def test_two_homes_of_one_user_have_daemons_of_their_own(fresh: Program) -> None:
    sockets = home(fresh) / "sockets"
    sockets.mkdir()
    fresh.env["TMPDIR"] = str(sockets)
    with laptop({}) as other:
        other.env["TMPDIR"] = str(sockets)
        Path(other.env["EFRIT_CONFIG"]).unlink()
        assert fresh.ok("eval", "(setq here 1)") == "1\n"
        assert other.ok("eval", "(boundp 'here)") == "nil\n"
        assert fresh.ok("eval", "here") == "1\n"
        other.ok("stop", "default")


def test_a_daemon_name_that_another_emacs_has_is_refused_before_work_begins(fresh: Program) -> None:
    fresh.ok("start", "a", "--daemon-name", "shared")
    done = fresh.run("start", "b", "--daemon-name", "shared")
    assert done.code == 9
    assert "the daemon name shared belongs to another Emacs" in done.err
    assert instance_names(fresh) == ["a", "default"]
    assert (queue(fresh, "b") / "daemon.log").exists()
