"""The rig's decisions and command lines: what can be tested without starting a cluster."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import bare, cli, images, paths, ports, programs, teardown
from tests.cluster.builder import DockerBuilder, Order
from tests.cluster.existing import ExistingCluster
from tests.cluster.forward import daemon as forward_daemon
from tests.cluster.loading import Loaded
from tests.cluster.paths import REPOSITORY
from tests.cluster.processes import Daemon
from tests.cluster.progress import ClusterError, run, wait_until
from tests.support.timeout import TIMEOUT

LAYOUT = paths.Layout("0123abcd")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State and cache of this test alone: the machine's cluster is never touched."""
    monkeypatch.setenv("EFRIT_CLUSTER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EFRIT_CLUSTER_KUBECONFIG", raising=False)
    return tmp_path


# Programs


def test_another_version_of_a_program_means_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folders = {programs.directory()}
    with monkeypatch.context() as patched:
        patched.setitem(programs.GO_INSTALL, "kind", "sigs.k8s.io/kind@v0.99.0")
        folders.add(programs.directory())
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_text((programs.CLIENTS / name).read_text())
    (tmp_path / "go.mod").write_text((tmp_path / "go.mod").read_text().replace("helm/v4 v4.", "helm/v4 v4.99"))
    monkeypatch.setattr(programs, "MODULES", {paths.HERE: {}, tmp_path: {}})
    folders.add(programs.directory())
    assert len(folders) == 3


def test_every_go_program_has_a_pinned_version() -> None:
    assert all(target.rpartition("@")[2].startswith("v") for target in programs.GO_INSTALL.values())
    for module, packages in programs.MODULES.items():
        text = (module / "go.mod").read_text()
        tools = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
        assert tools is not None
        assert sorted(packages.values()) == sorted(tools[1].split())


def test_the_adapter_of_metrics_is_built_with_the_libraries_of_the_api_server() -> None:
    kubernetes = (paths.HERE / "go.mod").read_text()
    adapter = (programs.METRICS_ADAPTER / "go.mod").read_text()
    replaced = re.findall(r"^\t(\S+) => \1 (v\S+)$", adapter, re.MULTILINE)
    assert replaced
    versions = [
        re.findall(rf"^\t(?:.* => )?{re.escape(name)} (v\S+)", kubernetes, re.MULTILINE) for name, _ in replaced
    ]
    assert [of_kubernetes[-1] for of_kubernetes in versions] == [version for _, version in replaced]


def test_two_processes_that_miss_a_program_build_it_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "directory", lambda: tmp_path)
    monkeypatch.setattr(programs, "_require_go", lambda: None)
    builds = []

    def install(_command: list[str], *, env: dict[str, str], **_rest: object) -> str:
        builds.append(env["GOBIN"])
        (Path(env["GOBIN"]) / "helm").touch()
        return ""

    monkeypatch.setattr(programs, "run", install)
    with (tmp_path / ".helm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor() as pool:
            second = pool.submit(programs.ensure_go_programs, ["helm"])
            wait_until(lambda: waits_for_lock(tmp_path / ".helm.lock"), "a waiter", timeout=TIMEOUT, pause=0.01)
            assert not builds
            (tmp_path / "helm").touch()  # the first has built it
            fcntl.flock(lock, fcntl.LOCK_UN)
            second.result(timeout=TIMEOUT)
    assert not builds
    (tmp_path / "helm").unlink()
    programs.ensure_go_programs(["helm"])
    assert len(builds) == 1


def waits_for_lock(path: Path) -> bool:
    """Tell whether somebody waits for the lock of this file, by the kernel's list."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


# Daemons


def test_a_pid_that_somebody_else_has_now_is_not_taken_for_the_daemon(tmp_path: Path) -> None:
    sleeper = Daemon("sleeper", ("sleep", "60"), tmp_path)
    sleeper.start()
    record = tmp_path / "pids" / "sleeper.json"
    text = record.read_text()
    record.write_text(json.dumps({"pid": os.getpid(), "started": "1"}))
    assert sleeper.pid() is None
    sleeper.stop()  # must not kill this very process
    record.write_text(text)
    sleeper.stop()


def test_a_daemon_that_is_to_die_with_its_parent_does(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(paths.REPOSITORY)!r})\n"
        "from pathlib import Path; from tests.cluster.processes import Daemon\n"
        f"Daemon('sleeper', ('sleep', '60'), Path({str(tmp_path)!r})).start(dies_with_parent=True)\n"
        "import os; os._exit(0)"
    )
    subprocess.run(["python3", "-c", script], check=True)
    sleeper = Daemon("sleeper", ("sleep", "60"), tmp_path)
    wait_until(lambda: sleeper.pid() is None, "the death of a sleeper", timeout=TIMEOUT, pause=0.01)


def test_waiting_gives_up_with_the_name_of_what_did_not_come() -> None:
    with pytest.raises(ClusterError, match="a miracle did not come about"):
        wait_until(lambda: False, "a miracle", timeout=0.05, pause=0.01)


# The bare node


def test_two_clones_share_no_name_and_no_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = paths.Layout.of_this_clone()
    monkeypatch.setenv("EFRIT_CLUSTER_STATE", str(tmp_path / "other"))
    other = paths.Layout.of_this_clone()
    assert {one.name, one.data, one.run, one.netns}.isdisjoint({other.name, other.data, other.run, other.netns})


@pytest.fixture
def device_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where a kubelet of this machine would have its socket: the real place may have another cluster's."""
    path = tmp_path / "kubelet.sock"
    monkeypatch.setattr(teardown, "DEVICE_SOCKET", path)
    return path


@pytest.mark.usefixtures("device_socket")
def test_nothing_of_a_cluster_that_never_was_is_found_on_the_machine() -> None:
    assert teardown.leftovers(LAYOUT) == []


def test_a_kubelets_socket_is_left_over_once_nobody_listens(device_socket: Path) -> None:
    with socket.socket(socket.AF_UNIX) as kubelet:
        kubelet.bind(str(device_socket))
        kubelet.listen()
        assert teardown.leftovers(LAYOUT) == []
    assert teardown.leftovers(LAYOUT) == [f"file {device_socket}"]


def test_a_forwarder_whose_network_is_gone_is_still_recognised(tmp_path: Path) -> None:
    words = forward_daemon(LAYOUT, 3, "10.89.0.1", 6443).command[2:]
    waiting = (words[0], "-c", "import time; time.sleep(60)", *words[3:])
    orphan = Daemon("forward", waiting, tmp_path)
    orphan.start()
    try:
        wait_until(lambda: orphan.pid() in teardown.processes(LAYOUT), "a find", timeout=TIMEOUT, pause=0.01)
    finally:
        orphan.stop()


def test_a_pager_on_a_log_of_the_cluster_is_nobodys_daemon(tmp_path: Path) -> None:
    # `tail` of a file that is not there waits for it under --retry.
    pager = Daemon("pager", ("tail", "-q", "--retry", "-F", f"{LAYOUT.data}/logs/kubelet.log"), tmp_path)
    pager.start()
    try:
        pid = pager.pid()
        wait_until(lambda: b"tail" in Path(f"/proc/{pid}/cmdline").read_bytes(), "tail", timeout=TIMEOUT, pause=0.01)
        assert pid not in teardown.processes(LAYOUT)
    finally:
        pager.stop()


# Ports


def test_a_port_is_given_to_one_process_alone() -> None:
    given = {ports.free_port() for _ in range(2 * ports.BLOCK)}
    assert len(given) == 2 * ports.BLOCK
    script = f"from tests.cluster import ports; print(*[ports.free_port() for _ in range({ports.BLOCK})])"
    assert given.isdisjoint(map(int, run([sys.executable, "-c", script], cwd=REPOSITORY).split()))


def test_ports_that_are_all_given_out_are_given_again_unless_somebody_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only = next(port for port in iter(ports.free_port, None) if port % ports.BLOCK)
    monkeypatch.setattr(ports, "PORTS", range(only, only + 1))
    monkeypatch.setattr(ports, "BLOCK", 1)
    given = ports._own()
    assert [next(given), next(given)] == [only, only]
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", only))
        with pytest.raises(RuntimeError, match="are taken"):
            next(given)


# Images


def test_only_images_that_changed_are_loaded_again(tmp_path: Path) -> None:
    loaded = Loaded(tmp_path / "loaded.json")
    archives = {"a": tmp_path / "a-1.tar", "b": tmp_path / "b-1.tar"}
    for name, archive in loaded.missing(archives):
        loaded.note(name, archive)
    assert loaded.missing(archives) == []
    assert loaded.missing({**archives, "b": tmp_path / "b-2.tar"}) == [("b", tmp_path / "b-2.tar")]


def test_an_image_is_built_anew_when_one_of_its_inputs_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    (tmp_path / "code" / "a.py").write_text("1")
    image = images.Image("x", "localhost/x:dev", "Dockerfile", ("code",), {"BASE_IMAGE": images.EMACS_30})
    first = images.fingerprint(image, "buildah")
    (tmp_path / "code" / "a.pyc").write_text("compiled")
    assert images.fingerprint(image, "buildah") == first
    (tmp_path / "code" / "a.py").write_text("2")
    second = images.fingerprint(image, "buildah")
    assert second != first
    assert images.fingerprint(image, "docker") != second
    richer = dataclasses.replace(images.EMACS_30, packages=("emacs-nox", "ripgrep"))
    other = dataclasses.replace(image, bases={"BASE_IMAGE": richer})
    assert images.fingerprint(other, "buildah") != second


def record_builds(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> list[str]:
    """Have images noted in the list that is returned, and not built."""
    built: list[str] = []

    def build(image: images.Image, *_arguments: object, **_options: object) -> Path:
        built.append(image.short)
        return own_state / image.short

    monkeypatch.setattr(paths, "cache", lambda: own_state)
    monkeypatch.setattr(images, "docker_answers", lambda: True)
    monkeypatch.setattr(images, "_build", build)
    return built


def test_of_two_clones_that_build_images_one_waits_for_the_other(
    monkeypatch: pytest.MonkeyPatch, own_state: Path
) -> None:
    # They share the base images and the archives of the machine.
    began = record_builds(monkeypatch, own_state)
    with (own_state / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor() as pool:
            second = pool.submit(images.build, ["emacs28"])
            wait_until(lambda: waits_for_lock(own_state / "images.lock"), "a waiter", timeout=TIMEOUT, pause=0.01)
            assert not began
            fcntl.flock(lock, fcntl.LOCK_UN)
            second.result(timeout=TIMEOUT)
    assert began == ["emacs28"]


def test_images_are_built_while_another_command_has_the_cluster(
    monkeypatch: pytest.MonkeyPatch, own_state: Path
) -> None:
    began, path = record_builds(monkeypatch, own_state), paths.state() / "lock"
    path.parent.mkdir()
    with ThreadPoolExecutor() as pool, path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        beside = pool.submit(cli.main, ["images", "emacs28"])
        wait_until(lambda: beside.done() or waits_for_lock(path), "an end", timeout=TIMEOUT, pause=0.01)
        assert beside.done()
    assert beside.result() == 0
    assert began == ["emacs28"]


def test_docker_is_given_the_hosts_pip_configuration_and_the_bases_that_the_dockerfile_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "pip.conf"
    configuration.touch()
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    bases, others = {"PYTHON_IMAGE": images.PYTHON, "LISP_IMAGE": images.EMACS_28}, {"LISP_IMAGE": "debian:bookworm"}
    order = Order("n:dev", tmp_path, tmp_path / "Dockerfile", bases, others, None, tmp_path / "a")
    command = DockerBuilder().command(order)
    assert [word for word in command if "_IMAGE=" in word] == ["LISP_IMAGE=debian:bookworm"]
    assert f"id=pip_conf,src={configuration}" in command
    assert command[-1] == str(tmp_path)


def test_the_image_with_a_native_compiler_is_built_on_demand_by_an_argument_of_the_dockerfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_state: Path
) -> None:
    built = record_builds(monkeypatch, own_state)
    images.build()
    assert built == ["operator", "emacs", "emacs28"]
    images.build(["native"])
    assert built[3:] == ["native"]
    [native] = [image for image in images.IMAGES if image.short == "native"]
    assert images.fingerprint(native, "docker") != images.fingerprint(
        dataclasses.replace(native, options={}), "docker"
    )
    order = Order("n", tmp_path, tmp_path / "Dockerfile", native.bases, {}, None, tmp_path / "a", native.options)
    assert "NATIVE_COMPILATION=yes" in DockerBuilder().command(order)
    dockerfile = (paths.REPOSITORY / native.dockerfile).read_text()
    assert "\nARG NATIVE_COMPILATION=no\n" in dockerfile
    assert 'sh /slim "${NATIVE_COMPILATION}"' in dockerfile
    # The context has the script, whoever fills it.
    assert "images/emacs/slim" in native.inputs
    assert "!images/emacs/slim" in (paths.REPOSITORY / f"{native.dockerfile}.dockerignore").read_text().splitlines()


RUNNING = {"programs": "p", "recipe": "r", "fsync": False, "audit_log": True, "port": 1}
DESIRED: dict[str, object] = {"programs": "p", "recipe": "r", "fsync": False, "audit_log": True}


@pytest.mark.parametrize(
    ("recorded", "desired", "expected"),
    [
        ({}, {}, False),
        ({}, {"fsync": True}, False),
        ({"fsync": True}, {}, True),
        ({"recipe": "old"}, {}, False),
        ({}, {"audit_log": False}, False),
        ({"audit_log": False}, {}, False),
        ({"audit_log": False}, {"audit_log": False}, True),
    ],
)
def test_a_running_cluster_serves_if_it_was_made_with_these_options(
    recorded: dict[str, object], desired: dict[str, object], expected: bool
) -> None:
    running = RUNNING | recorded if recorded or desired else {}
    assert bare.serves(running, DESIRED | desired) == expected


# kind and existing clusters


def test_an_existing_cluster_gets_images_by_its_owners_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFRIT_LOAD_COMMAND", f"sh -c 'echo {{name}} {{archive}} >> {tmp_path}/log'")
    ExistingCluster().load({"localhost/efrit/operator:dev": Path("/cache/operator.tar")})
    assert (tmp_path / "log").read_text() == "localhost/efrit/operator:dev /cache/operator.tar\n"


# The command line


def test_a_check_for_leftovers_fails_while_there_are_some(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTER", "existing")
    assert cli.main(["down", "--check"]) == 0
    paths.kubeconfig().parent.mkdir(exist_ok=True)
    paths.kubeconfig().touch()
    assert cli.main(["down", "--check"]) == 1
    assert str(paths.kubeconfig()) in capsys.readouterr().out


def test_a_second_command_waits_until_the_first_is_done() -> None:
    environment = {**os.environ, "CLUSTER": "existing", "PYTHONPATH": str(paths.REPOSITORY)}
    paths.state().mkdir()
    with (paths.state() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["python3", "-m", "tests.cluster", "down", "--check"]
        second = subprocess.Popen(command, cwd=paths.REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True)
        assert second.stderr is not None
        assert "waiting for it" in second.stderr.readline()
        assert second.poll() is None
    with second:
        assert second.wait(TIMEOUT) == 0
