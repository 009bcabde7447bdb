"""manifests/statefulset.py: the pod of an instance, restricted whatever its user asks for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from efrit.api.pod_template import RESERVED_MOUNTS, RESERVED_VOLUMES
from efrit.controller.manifests.statefulset import build_statefulset
from tests.support.factory import CONFIG, Json, instance

MODEL = {"name": "m", "maxTokens": 99, "apiKeySecretRef": {"name": "key", "key": "token"}}
FULL: Json = {
    "emacs": {
        "image": "example.org/mine:1",
        "daemonName": "mine",
        "initConfigMapRef": {"name": "my-init"},
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
    },
    "model": MODEL,
    "podTemplate": {
        "labels": {"cost": "team-a"},
        "annotations": {"note": "x"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "runtimeClassName": "gvisor",
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "mine"}],
        "env": [{"name": "FOO", "value": "bar"}],
        "envFrom": [{"configMapRef": {"name": "more"}}],
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    },
}


def statefulset(spec: Json | None = None, replicas: int = 1, config: Any = CONFIG) -> Any:
    return build_statefulset(instance(spec=spec), config, replicas)


def pod(spec: Json | None = None, **fields: Any) -> Any:
    return statefulset(spec, **fields)["spec"]["template"]["spec"]


def container(spec: Json | None = None, **fields: Any) -> Any:
    return pod(spec, **fields)["containers"][0]


def bridge(spec: Json | None = None, **fields: Any) -> Any:
    return pod(spec, **fields)["initContainers"][0]


def env(container: Any) -> dict[str, Any]:
    assert len({variable["name"] for variable in container["env"]}) == len(container["env"]), (
        "server-side apply refuses doubles"
    )
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def mounts(container: Any) -> dict[str, Any]:
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


def volumes(spec: Json | None = None) -> dict[str, Any]:
    return {volume["name"]: {k: v for k, v in volume.items() if k != "name"} for volume in pod(spec)["volumes"]}


# Pod Security Standards, level restricted.


@pytest.mark.parametrize("spec", [{}, FULL], ids=["default", "everything set"])
def test_the_pod_meets_the_restricted_pod_security_standard(spec: Json) -> None:
    pod_spec = pod(spec)

    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod_spec.keys()
    assert pod_spec["securityContext"]["runAsNonRoot"] is True
    assert pod_spec["securityContext"]["runAsUser"] > 0
    assert pod_spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod_spec["initContainers"], *pod_spec["containers"]]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in container["securityContext"]
        assert not any("hostPort" in port for port in container.get("ports", ()))
    allowed = {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "csi", "ephemeral", "name"}
    assert all(volume.keys() <= allowed for volume in pod_spec["volumes"])


@pytest.mark.parametrize("spec", [{}, FULL], ids=["default", "everything set"])
def test_every_root_file_system_is_read_only(spec: Json) -> None:
    pod_spec = pod(spec)

    assert all(
        container["securityContext"]["readOnlyRootFilesystem"]
        for container in [*pod_spec["initContainers"], *pod_spec["containers"]]
    )


def test_every_process_runs_as_one_user_and_group_and_sees_the_others_so_that_the_bridge_can_interrupt() -> None:
    context = pod()["securityContext"]

    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (65532, 65532, 65532)
    assert pod()["shareProcessNamespace"] is True


@pytest.mark.parametrize(
    ("spec", "account", "token"),
    [({}, "efrit-alpha", False), ({"podTemplate": {"serviceAccountName": "mine"}}, "mine", True)],
    ids=["our account, without a token of the API server", "an account of the user, with its token"],
)
def test_code_in_the_instance_has_a_token_only_of_its_users_account(spec: Json, account: str, token: bool) -> None:
    assert (pod(spec)["serviceAccountName"], pod(spec)["automountServiceAccountToken"]) == (account, token)


# The StatefulSet.


@pytest.mark.parametrize("replicas", [0, 1])
def test_the_replicas_are_those_asked_for(replicas: int) -> None:
    assert statefulset(replicas=replicas)["spec"]["replicas"] == replicas


def test_the_selector_matches_the_template_and_never_changes_with_the_users_labels() -> None:
    made = statefulset(FULL)["spec"]

    assert made["selector"]["matchLabels"].items() <= made["template"]["metadata"]["labels"].items()
    assert made["selector"] == statefulset()["spec"]["selector"]


def test_labels_of_the_operator_win_over_those_of_the_user() -> None:
    made = statefulset({"podTemplate": {"labels": {"efrit.dev/instance": "other", "cost": "a"}}})

    labels = made["spec"]["template"]["metadata"]["labels"]
    assert (labels["efrit.dev/instance"], labels["cost"]) == ("alpha", "a")


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 40),
        ({"model": MODEL, "limits": {"commandTimeoutSeconds": 120}}, 130),
        ({"limits": {"requestTimeoutSeconds": 80_000}}, 300),
        ({"limits": {"requestTimeoutSeconds": 3600, "drainSeconds": 7200}}, 3610),
        ({"limits": {"requestTimeoutSeconds": 3600, "drainSeconds": 600}}, 600),
        ({"limits": {"drainSeconds": 10}}, 10),
    ],
)
def test_a_stopping_pod_has_the_time_of_a_request_to_drain_and_no_more_than_its_instance_says(
    spec: Json, seconds: int
) -> None:
    assert pod(spec)["terminationGracePeriodSeconds"] == seconds


# The bridge.


def test_the_bridge_is_a_native_sidecar_of_the_operators_image() -> None:
    sidecar = bridge()

    assert (sidecar["name"], sidecar["restartPolicy"], sidecar["image"]) == ("bridge", "Always", CONFIG.bridge_image)
    assert sidecar["command"] == ["efrit-bridge"]
    assert sidecar["ports"] == [{"name": "bridge", "containerPort": 8443, "protocol": "TCP"}]


def test_the_bridge_learns_its_limits_from_the_spec() -> None:
    spec = {
        "queue": {"ephemeral": True, "maxPending": 5, "archiveSeconds": 60, "archiveRequests": 3, "archiveBytes": 4},
        "limits": {"maxRequestBytes": 7, "requestTimeoutSeconds": 9},
    }

    # Which variables there are, docs/dev/contracts.toml says.
    expected = {
        "EFRIT_QUEUE_DIR": "/var/lib/efrit/queue",
        "EFRIT_BRIDGE_PORT": "8443",
        "EFRIT_BRIDGE_PROBE_PORT": "8444",
        "EFRIT_BRIDGE_SECRETS": "/etc/efrit/bridge",
        "EFRIT_SHARED_DIR": "/efrit",
        "EFRIT_MAX_PENDING": "5",
        "EFRIT_MAX_REQUEST_BYTES": "7",
        "EFRIT_ARCHIVE_SECONDS": "60",
        "EFRIT_ARCHIVE_REQUESTS": "3",
        "EFRIT_ARCHIVE_BYTES": "4",
        "EFRIT_REQUEST_TIMEOUT": "9",
    }
    variables = env(bridge(spec))
    assert expected.items() <= variables.items()
    assert {name for name in variables if not name.startswith("EFRIT_")} == set()


def test_bridge_and_emacs_have_the_resources_of_the_installation_unless_the_instance_names_some() -> None:
    limits = {"limits": {"memory": "3Gi"}}
    config = replace(CONFIG, bridge_resources={"requests": {"cpu": "1"}}, emacs_resources=limits)

    assert bridge(config=config)["resources"] == {"requests": {"cpu": "1"}}
    assert container(config=config)["resources"] == limits
    assert container(FULL, config=config)["resources"]["limits"] == {"memory": "1Gi"}


def test_only_the_bridge_sees_its_secret() -> None:
    assert "/etc/efrit/bridge" in mounts(bridge())
    assert mounts(bridge())["/etc/efrit/bridge"]["readOnly"] is True
    assert "/etc/efrit/bridge" not in mounts(container())
    assert volumes()["bridge"] == {"secret": {"secretName": "efrit-alpha-bridge", "defaultMode": 0o440}}


def test_the_probes_ask_the_bridge_and_do_not_kill_one_that_starts_slowly() -> None:
    alive, ready = bridge()["livenessProbe"], bridge()["readinessProbe"]

    assert alive["httpGet"] == {"path": "/healthz", "port": 8444, "scheme": "HTTP"}
    assert ready["httpGet"] == {"path": "/readyz", "port": 8444, "scheme": "HTTP"}
    assert alive["initialDelaySeconds"] + alive["periodSeconds"] * (alive["failureThreshold"] - 1) >= 120


# Emacs.


def test_emacs_learns_where_its_queue_is() -> None:
    expected = {
        "EFRIT_QUEUE_DIR": "/var/lib/efrit/queue",
        "EFRIT_INSTANCE_ID": "team/alpha",
        "EFRIT_DAEMON_NAME": "efrit",
        "EFRIT_WORKSPACE": "/workspace",
        "EFRIT_REQUEST_TIMEOUT": "30",
        "EFRIT_MAX_RESULT_BYTES": "1048576",
        "EFRIT_BRIDGE": "1",
        "HOME": "/home/efrit",
        "LANG": "C.UTF-8",
    }
    variables = env(container())
    assert expected.items() <= variables.items()
    assert {name for name in variables if not name.startswith("EFRIT_")} == {"HOME", "LANG"}


def test_emacs_runs_the_script_the_bridge_lays_out() -> None:
    emacs_container = container()

    assert emacs_container["command"][:2] == ["/bin/sh", "-c"]
    assert "exec /efrit/run-emacs" in emacs_container["command"][2]
    assert mounts(emacs_container)["/efrit"]["readOnly"] is True
    assert emacs_container["workingDir"] == "/workspace"


@pytest.mark.parametrize(
    ("emacs", "image", "policy"),
    [
        ({}, CONFIG.emacs_image, "IfNotPresent"),
        ({"image": "example.org/mine:1"}, "example.org/mine:1", None),
        ({"imagePullPolicy": "Always"}, CONFIG.emacs_image, "Always"),
    ],
    ids=["the installation's", "an image of the user, with the cluster's policy", "a policy of the user"],
)
def test_which_image_emacs_runs_and_when_it_is_pulled(emacs: Json, image: str, policy: str | None) -> None:
    emacs_container = container({"emacs": emacs})

    assert (emacs_container["image"], emacs_container.get("imagePullPolicy")) == (image, policy)


def test_an_init_file_is_mounted_and_named() -> None:
    spec = {"emacs": {"initConfigMapRef": {"name": "my-init"}}}

    assert env(container(spec))["EFRIT_INIT_FILE"] == "/etc/efrit/init/init.el"
    assert mounts(container(spec))["/etc/efrit/init"]["readOnly"] is True
    assert volumes(spec)["init"] == {"configMap": {"name": "my-init"}}


def test_dumps_of_libraries_are_kept_on_the_volume_of_the_queue() -> None:
    spec = {"emacs": {"fastStart": {"libraries": ["org", "magit"]}}}

    assert env(container(spec))["EFRIT_FAST_START_LIBRARIES"] == "org magit"
    assert env(container(spec))["EFRIT_FAST_START_DIR"] == "/var/lib/efrit/dumps"
    assert "dumps" not in volumes(spec)


def test_no_dump_is_made_on_a_queue_that_goes_with_its_pod() -> None:
    spec = {"queue": {"ephemeral": True}, "emacs": {"fastStart": {"libraries": ["org"]}}}
    assert env(container(spec))["EFRIT_FAST_START_LIBRARIES"] == "org"
    assert "EFRIT_FAST_START_DIR" not in env(container(spec))


def test_dumps_that_instances_share_are_on_a_claim_that_only_emacs_sees() -> None:
    spec = {
        "queue": {"ephemeral": True},
        "emacs": {"fastStart": {"libraries": ["org"], "existingClaim": "crew-dumps"}},
    }

    assert env(container(spec))["EFRIT_FAST_START_DIR"] == "/var/lib/efrit-dumps"
    assert mounts(container(spec))["/var/lib/efrit-dumps"] == {"name": "dumps", "mountPath": "/var/lib/efrit-dumps"}
    assert "/var/lib/efrit-dumps" not in mounts(bridge(spec))
    assert volumes(spec)["dumps"] == {"persistentVolumeClaim": {"claimName": "crew-dumps"}}


def test_the_key_of_the_model_is_a_file_that_only_emacs_sees() -> None:
    spec = {"model": MODEL}

    assert env(container(spec))["EFRIT_MODEL_API_KEY_FILE"] == "/etc/efrit/model/api-key"
    assert "/etc/efrit/model" in mounts(container(spec))
    assert "/etc/efrit/model" not in mounts(bridge(spec))
    assert volumes(spec)["model"]["secret"] == {
        "secretName": "key",
        "items": [{"key": "token", "path": "api-key"}],
        "defaultMode": 0o440,
    }


def test_emacs_gets_the_settings_of_chats_and_commands() -> None:
    spec = {
        "model": {**MODEL, "protocol": "elisp", "proxyURL": "http://proxy.example.org:3128"},
        "queue": {"concurrency": 9},
        "limits": {
            "maxToolCalls": 7,
            "maxRepeatedCalls": 2,
            "maxIterations": 3,
            "maxTokens": 4,
            "iterationTimeoutSeconds": 5,
            "commandTimeoutSeconds": 99,
        },
        "tools": {"allow": ["eval_sexp", "file_read"], "deny": ["shell_exec"]},
    }

    variables = env(container(spec))

    assert {
        "EFRIT_MODEL_PROTOCOL": "elisp",
        "EFRIT_MODEL_PROXY": "http://proxy.example.org:3128",
        "EFRIT_CONCURRENCY": "9",
        "EFRIT_MAX_TOOL_CALLS": "7",
        "EFRIT_MAX_REPEATED_CALLS": "2",
        "EFRIT_MAX_ITERATIONS": "3",
        "EFRIT_MAX_TOKENS": "4",
        "EFRIT_ITERATION_TIMEOUT": "5",
        "EFRIT_COMMAND_TIMEOUT": "99",
        "EFRIT_TOOLS_ALLOW": "eval_sexp,file_read",
        "EFRIT_TOOLS_DENY": "shell_exec",
    }.items() <= variables.items()
    assert env(bridge(spec))["EFRIT_COMMAND_TIMEOUT"] == "99"
    assert env(container({"model": MODEL}))["EFRIT_MODEL_PROTOCOL"] == "tools"
    assert (
        not {"EFRIT_MODEL_PROXY", "EFRIT_TOOLS_ALLOW", "EFRIT_TOOLS_DENY"} & env(container({"model": MODEL})).keys()
    )


def test_without_a_model_what_is_meant_for_commands_does_not_touch_the_pod() -> None:
    spec = {"queue": {"concurrency": 9}, "limits": {"commandTimeoutSeconds": 99}, "tools": {"deny": ["shell_exec"]}}

    assert statefulset(spec) == statefulset()


def test_what_the_user_may_shape_is_taken_over() -> None:
    made = statefulset(FULL)["spec"]["template"]
    pod_spec, emacs = made["spec"], made["spec"]["containers"][0]

    assert made["metadata"]["labels"]["cost"] == "team-a"
    assert made["metadata"]["annotations"]["note"] == "x"
    assert pod_spec["nodeSelector"] == {"disk": "ssd"}
    assert pod_spec["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert pod_spec["affinity"] == {"nodeAffinity": {}}
    assert (pod_spec["runtimeClassName"], pod_spec["priorityClassName"]) == ("gvisor", "low")
    assert pod_spec["imagePullSecrets"] == [{"name": "mine"}]
    assert env(emacs)["FOO"] == "bar"
    assert emacs["envFrom"] == [{"configMapRef": {"name": "more"}}]
    assert mounts(emacs)["/extra"] == {"name": "extra", "mountPath": "/extra"}
    assert volumes(FULL)["extra"] == {"emptyDir": {}}
    assert emacs["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("variables", "name", "value"),
    [
        ([{"name": "LANG", "value": "de_DE.UTF-8"}], "LANG", "de_DE.UTF-8"),
        ([{"name": "FOO", "value": "one"}, {"name": "FOO", "value": "two"}], "FOO", "two"),
    ],
    ids=["one of ours", "one that is named twice"],
)
def test_a_variable_of_the_user_replaces_the_one_before(variables: list[Json], name: str, value: str) -> None:
    assert env(container({"podTemplate": {"env": variables}}))[name] == value


def test_pull_secrets_of_installation_and_user_are_both_given() -> None:
    config = replace(CONFIG, image_pull_secrets=("ours",))

    assert pod(FULL, config=config)["imagePullSecrets"] == [{"name": "ours"}, {"name": "mine"}]


# Storage.


@pytest.mark.parametrize("volume", ["queue", "workspace"])
@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ({"ephemeral": True, "sizeLimit": "3Gi"}, {"emptyDir": {"sizeLimit": "3Gi"}}),
        ({"existingClaim": "mine"}, {"persistentVolumeClaim": {"claimName": "mine"}}),
        ({"storage": {}}, {"persistentVolumeClaim": {"claimName": "efrit-alpha-%s"}}),
    ],
    ids=["ephemeral", "existing claim", "own claim"],
)
def test_each_kind_of_storage_becomes_its_volume(volume: str, storage: Json, expected: Json) -> None:
    text = json.dumps(expected)

    assert volumes({volume: storage})[volume] == json.loads(text % volume if "%" in text else text)


def test_what_a_pod_may_write_on_its_node_is_limited() -> None:
    pod_volumes = volumes({"queue": {"ephemeral": True}, "workspace": {"ephemeral": True}})

    limits = {name: volume["emptyDir"]["sizeLimit"] for name, volume in pod_volumes.items() if "emptyDir" in volume}
    assert limits == {"queue": "2Gi", "workspace": "10Gi", "efrit": "16Mi", "home": "10Gi", "tmp": "10Gi"}


def test_both_containers_share_the_queue_and_only_emacs_has_the_workspace() -> None:
    assert "/var/lib/efrit" in mounts(bridge())
    assert "/var/lib/efrit" in mounts(container())
    assert "/workspace" in mounts(container())
    assert "/workspace" not in mounts(bridge())


def test_the_names_a_user_must_not_take_are_those_that_are_taken() -> None:
    ours = pod({"emacs": {"initConfigMapRef": {"name": "i"}}, "model": MODEL})

    assert {volume["name"] for volume in ours["volumes"]} == set(RESERVED_VOLUMES)
    for path in [*mounts(ours["containers"][0]), *mounts(ours["initContainers"][0])]:
        assert path in RESERVED_MOUNTS or path.startswith("/etc/efrit/")
