"""A model in the order a newcomer does things: the daemon first, the model's settings afterwards."""

from __future__ import annotations

from pathlib import Path

from tests.integration.client.conftest import model_environment
from tests.model.running import Model, running
from tests.support.efrit_program import Program, Terminal

CHAT = "Good day, who are you? (scenario=chat)"
ANSWER = "Hello. I am a model that reads from a script.\n"


def test_a_daemon_without_the_model_is_noticed_and_a_restart_gives_it_one(
    fresh: Program, model: Model, tmp_path: Path
) -> None:
    fresh.ok("eval", "1")
    done = fresh.run("chat", CHAT)
    assert "EFRIT_MODEL_NAME" in done.err
    fresh.env |= model_environment(model, tmp_path)
    done = fresh.run("chat", CHAT)
    assert done.code == 9
    assert "one was started without a model" in done.err
    assert "efrit restart one" in done.err
    doctor = fresh.run("doctor")
    assert (doctor.code, "efrit restart one" in doctor.out) == (1, True), doctor
    fresh.ok("restart", "one")
    assert fresh.ok("chat", CHAT) == ANSWER
    assert fresh.run("doctor").code == 0


def test_at_a_terminal_the_restart_is_offered_and_done(fresh: Program, model: Model, tmp_path: Path) -> None:
    fresh.ok("eval", "1")
    fresh.env |= model_environment(model, tmp_path)
    with Terminal(fresh, "chat", CHAT) as terminal:
        terminal.expect("Restart it?")
        terminal.type("y\n")
        terminal.expect(ANSWER.strip())
        assert terminal.end() == 0


def test_another_model_than_the_daemons_is_reported_and_work_goes_on(
    fresh: Program, model: Model, tmp_path: Path
) -> None:
    fresh.env |= model_environment(model, tmp_path)
    fresh.ok("eval", "1")
    fresh.env["EFRIT_MODEL_NAME"] = "n"
    done = fresh.run("chat", CHAT)
    assert (done.code, done.out) == (0, ANSWER)
    assert "EFRIT_MODEL_NAME is n here and m there" in done.err
    # Who says nothing of a model takes the daemon's.
    for name in list(fresh.env):
        if name.startswith("EFRIT_MODEL_"):
            del fresh.env[name]
    done = fresh.run("chat", CHAT)
    assert (done.code, done.out, done.err) == (0, ANSWER, "")


def test_doctor_asks_the_model_and_says_what_is_wrong(fresh: Program, model: Model, tmp_path: Path) -> None:
    fresh.env |= model_environment(model, tmp_path)
    doctor = fresh.run("doctor")
    assert (doctor.code, f"m at {model.url} answers" in doctor.out) == (0, True), doctor
    (tmp_path / "key").write_text("another-key")
    doctor = fresh.run("doctor")
    assert (doctor.code, "answers 401" in doctor.out, "EFRIT_MODEL_API_KEY_FILE" in doctor.out) == (1, True, True), (
        doctor
    )
    assert "another-key" not in doctor.out
    fresh.env["EFRIT_MODEL_BASE_URL"] = "http://127.0.0.1:9"
    doctor = fresh.run("doctor")
    assert (doctor.code, "does not answer" in doctor.out, "EFRIT_MODEL_BASE_URL" in doctor.out) == (1, True, True), (
        doctor
    )
    del fresh.env["EFRIT_MODEL_BASE_URL"], fresh.env["EFRIT_MODEL_API_KEY_FILE"]
    doctor = fresh.run("doctor")
    assert "https://api.anthropic.com takes a key, and none is set" in doctor.out


def test_a_server_of_ones_own_needs_no_key(fresh: Program) -> None:
    with running() as keyless:
        keyless.accept("")
        fresh.env |= {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_BASE_URL": keyless.url}
        assert fresh.ok("chat", CHAT) == ANSWER
        assert fresh.run("doctor").code == 0


def test_a_missing_key_is_named_with_the_variable_to_set(fresh: Program) -> None:
    fresh.env["EFRIT_MODEL_NAME"] = "m"
    done = fresh.run("chat", "Hello")
    assert done.code == 1
    assert "https://api.anthropic.com takes a key, and none is set: set EFRIT_MODEL_API_KEY_FILE" in done.err
