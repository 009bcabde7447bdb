"""Examples of every CEL rule: what it lets pass and what it refuses. test_rules.py proves that none is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from efrit.api import RequestSpec, RequestStatus
from efrit.api.pod_template import BOUND_SOURCES, RESERVED_MOUNTS, RESERVED_VOLUMES
from tests.support.kube import Json
from tests.support.manifest_schema import BASES, definitions, root

INSTANCES, REQUESTS = "efritinstances", "efritrequests"


@dataclass(frozen=True)
class Rule:
    """One CEL rule of the definitions: where it stands, and the beginning of its message."""

    plural: str
    where: str
    message: str


@dataclass(frozen=True)
class Example:
    """A write: `new` over `old` (None: a create). `sub` is `status` for a write to the status."""

    rule: Rule
    title: str
    new: Json
    accepted: bool
    old: Json | None = None
    sub: str = ""

    def __str__(self) -> str:
        return f"{self.rule.where or self.rule.plural}:{self.title}:{'accepted' if self.accepted else 'refused'}"


def rules() -> Iterator[Rule]:
    """Yield every rule of every definition."""
    for plural, definition in definitions().items():
        yield from _rules(plural, "", root(definition))


def _rules(plural: str, where: str, schema: Json) -> Iterator[Rule]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield Rule(plural, where, rule["message"])
    for name, below in schema.get("properties", {}).items():
        yield from _rules(plural, f"{where}.{name}".strip("."), below)
    if isinstance(schema.get("items"), dict):
        yield from _rules(plural, f"{where}[]", schema["items"])


def request(**spec: Any) -> Json:
    """Return a request; a field set to None is left out."""
    whole = {**BASES[REQUESTS]["spec"], **spec}
    return {"spec": {key: value for key, value in whole.items() if value is not None}}


def instance(**spec: Any) -> Json:
    """Return an instance."""
    return {"spec": spec}


def examples() -> list[Example]:
    """Return all examples."""
    return [
        *_targets(),
        *_types(),
        *_content(),
        *_cancel(),
        *_immutable(),
        *_final(),
        *_names(),
        *_storage("workspace"),
        *_storage("queue"),
        *_idle(),
        *_tools(),
        *_volumes(),
        *_mounts(),
        *_pod(),
        *_network(),
    ]


def group(
    rule: Rule, good: Mapping[str, Json], bad: Mapping[str, Json], old: Json | None = None
) -> Iterator[Example]:
    """Yield writes over `old` that a rule accepts and that it refuses, by title."""
    for title, new in good.items():
        yield Example(rule, title, new, accepted=True, old=old)
    for title, new in bad.items():
        yield Example(rule, title, new, accepted=False, old=old)


def _targets() -> Iterator[Example]:
    to, pool, chosen = {"name": "one"}, {"name": "many"}, {"matchLabels": {"team": "a"}}
    yield from group(
        Rule(REQUESTS, "spec", "name exactly one target"),
        {
            "an instance": request(instanceRef=to),
            "a pool": request(instanceRef=None, poolRef=pool),
            "a selector": request(instanceRef=None, selector=chosen),
        },
        {
            "no target": request(instanceRef=None),
            "an instance and a pool": request(instanceRef=to, poolRef=pool),
            "an instance and a selector": request(instanceRef=to, selector=chosen),
            "a pool and a selector": request(instanceRef=None, poolRef=pool, selector=chosen),
        },
    )


def _types() -> Iterator[Example]:
    budget, session = {"maxTokens": 100}, {"id": "s-1"}
    yield from group(
        Rule(REQUESTS, "spec", "spec.budget bounds a command"),
        {"a command with a budget": request(type="command", budget=budget)},
        {kind: request(type=kind, budget=budget) for kind in ("eval", "chat")},
    )
    yield from group(
        Rule(REQUESTS, "spec", "spec.session continues a chat or a command"),
        {kind: request(type=kind, session=session) for kind in ("command", "chat")},
        {"eval": request(type="eval", session=session)},
    )


def _tools() -> Iterator[Example]:
    def model(protocol: str, **tools: list[str]) -> Json:
        key = {"name": "s", "key": "k"}
        return instance(model={"name": "m", "apiKeySecretRef": key, "protocol": protocol}, tools=tools)

    yield from group(
        Rule(INSTANCES, "spec", "with model.protocol elisp every step is eval_sexp"),
        {
            "tools that are called": model("tools", deny=["shell_exec"], allow=["eval_sexp"]),
            "Lisp alone": model("elisp", allow=["eval_sexp"]),
            "nothing said": model("elisp"),
        },
        {"a tool denied": model("elisp", deny=["shell_exec"]), "others allowed": model("elisp", allow=["file_read"])},
    )


def _content() -> Iterator[Example]:
    yield from group(
        Rule(REQUESTS, "spec", "spec.content holds a NUL character"),
        {
            "control characters": request(content="\x01\t\n\x7f\u2028\U0001f600"),
            "the longest": request(content="<" * 245_760),
        },
        {"NUL": request(content="a\x00b"), "NUL at the end": request(content="a\x00")},
    )


def _cancel() -> Iterator[Example]:
    rule = Rule(REQUESTS, "spec.cancel", "spec.cancel cannot be taken back")
    yield Example(rule, "cancelled", request(cancel=True), accepted=True, old=request(cancel=False))
    yield Example(rule, "still cancelled", request(cancel=True), accepted=True, old=request(cancel=True))
    yield Example(rule, "taken back", request(cancel=False), accepted=False, old=request(cancel=True))
    yield Example(rule, "left out again", request(), accepted=False, old=request(cancel=True))


CHANGES: Mapping[str, tuple[Any, Any, Json]] = {
    "instance_ref": ({"name": "a"}, {"name": "b"}, {}),
    "pool_ref": ({"name": "a"}, {"name": "b"}, {"instanceRef": None}),
    "selector": ({"matchLabels": {"a": "1"}}, {"matchLabels": {"a": "2"}}, {"instanceRef": None}),
    "type": ("eval", "chat", {}),
    "content": ("1", "2", {}),
    "return_context": (False, True, {}),
    "timeout_seconds": (10, 20, {}),
    "queue_timeout_seconds": (10, 20, {}),
    "budget": ({"maxTokens": 1}, {"maxTokens": 2}, {"type": "command"}),
    "session": ({"id": "a"}, {"id": "b"}, {"type": "chat"}),
    "priority": (0, 1, {}),
    "retry_policy": ("Never", "IfInterrupted", {}),
    "max_attempts": (3, 4, {}),
    "ttl_seconds_after_finished": (10, 20, {}),
}
"""Field of RequestSpec -> two values and what the rest of the spec needs beside them."""

ABSENT: Mapping[str, Json] = {
    "instance_ref": {"instanceRef": None, "poolRef": {"name": "a"}},
    "pool_ref": {},
    "selector": {},
    "timeout_seconds": {},
    "queue_timeout_seconds": {},
    "budget": {"type": "command"},
    "session": {"type": "chat"},
    "ttl_seconds_after_finished": {},
}
"""Field of RequestSpec that may be absent -> what the rest of the spec needs then."""


def _immutable() -> Iterator[Example]:
    for name, (before, after, beside) in CHANGES.items():
        field = RequestSpec.model_fields[name].alias or name
        rule = Rule(REQUESTS, "spec" if name == "content" else f"spec.{field}", f"spec.{field} is immutable")
        old, new = request(**{**beside, field: before}), request(**{**beside, field: after})
        yield Example(rule, f"{field} kept", old, accepted=True, old=old)
        yield Example(rule, f"{field} changed", new, accepted=False, old=old)
        if name in ABSENT:
            present = Rule(REQUESTS, "spec", rule.message)
            absent = request(**ABSENT[name])
            yield Example(present, f"{field} kept", old, accepted=True, old=old)
            yield Example(present, f"{field} still absent", absent, accepted=True, old=absent)
            yield Example(present, f"{field} added", new, accepted=False, old=absent)
            yield Example(present, f"{field} removed", absent, accepted=False, old=old)
        elif name not in BASES[REQUESTS]["spec"]:
            yield Example(rule, f"{field} left out again", request(), accepted=False, old=new)


STATUS: Mapping[str, tuple[Any, Any]] = {
    "phase": ("Succeeded", "Failed"),
    "conditions": (
        [
            {
                "type": "Complete",
                "status": "True",
                "reason": "Succeeded",
                "message": "Done.",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        [],
    ),
    "reason": ("Succeeded", "EvalError"),
    "outcome": ("Success", "Failure"),
    "result": ("42", "43"),
    "truncated": (False, True),
    "resultRef": (
        {"secretName": "s", "key": "k", "bytes": 1, "sha256": "x"},
        {"secretName": "t", "key": "k", "bytes": 1, "sha256": "x"},
    ),
    "output": ("out", "other"),
    "messages": ("said", "other"),
    "error": ({"code": "c", "message": "m"}, {"code": "d", "message": "m"}),
    "context": ({"currentBuffer": "*scratch*"}, {"currentBuffer": "other"}),
    "session": ({"id": "s"}, {"id": "t"}),
    "progress": ({"step": 1}, {"step": 2}),
    "usage": ({"inputTokens": 1}, {"inputTokens": 2}),
    "sessionLeft": ("s-1", "s-2"),
    "instanceName": ("one", "two"),
    "podUID": ("u", "v"),
    "queueID": ("q", "r"),
    # It has one value: the other is none.
    "handover": ("Possible", None),
    "preemption": ({"count": 1}, {"count": 2}),
    "attempt": (1, 2),
    "queuedTime": ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    "startTime": ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    "completionTime": ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    "executionSeconds": (1.5, 2.5),
}
"""Each field of a final status -> its value and another one."""

FINAL_STATUS: Json = {field: value for field, (value, _) in STATUS.items()}


def status_fields() -> set[str]:
    """Return the names of all fields of a request's status, as written."""
    return {field.alias or name for name, field in RequestStatus.model_fields.items()}


def _final() -> Iterator[Example]:
    rule = Rule(REQUESTS, "", "the status of a finished EfritRequest is final")
    for phase in ("Succeeded", "Failed"):
        done = {"status": {**FINAL_STATUS, "phase": phase}}
        yield Example(rule, f"{phase} written again", done, accepted=True, old=done, sub="status")
        for back in ("Pending", "Queued", "Running"):
            new = {"status": {**FINAL_STATUS, "phase": back}}
            yield Example(rule, f"{phase} to {back}", new, accepted=False, old=done, sub="status")
    done, opened = {"status": FINAL_STATUS}, {"status": {"phase": "Running"}}
    yield Example(rule, "finished", done, accepted=True, old=opened, sub="status")
    yield Example(rule, "opened", opened, accepted=True, old={"status": {}}, sub="status")
    yield Example(rule, "removed", {}, accepted=False, old=done, sub="status")
    yield Example(rule, "emptied", {"status": {}}, accepted=False, old=done, sub="status")
    for name, (_, other) in STATUS.items():
        changed = {"status": {**FINAL_STATUS, name: other}}
        missing = {"status": {key: value for key, value in FINAL_STATUS.items() if key != name}}
        yield Example(rule, f"{name} changed", changed, accepted=False, old=done, sub="status")
        yield Example(rule, f"{name} removed", missing, accepted=False, old=done, sub="status")


def _names() -> Iterator[Example]:
    def named(name: str) -> Json:
        return {"metadata": {"name": name}, "spec": {}}

    yield from group(
        Rule(INSTANCES, "", "metadata.name names the pod too"),
        {name[:10]: named(name) for name in ("a", "a" * 46, "team-1")},
        {name[:10]: named(name) for name in ("b" * 47, "1-team", "a.b")},
    )


def _storage(volume: str) -> Iterator[Example]:
    def of(**chosen: Any) -> Json:
        return instance(**{volume: chosen})

    where = f"spec.{volume}"
    yield from group(
        Rule(INSTANCES, where, "choose one"),
        {
            "nothing said": instance(),
            "nothing chosen": of(),
            "not ephemeral": of(ephemeral=False),
            "a claim made": of(storage={}),
            "a claim that exists": of(existingClaim="mine"),
            "ephemeral": of(ephemeral=True),
            "made, not ephemeral": of(storage={}, ephemeral=False),
        },
        {
            "made and existing": of(storage={}, existingClaim="mine"),
            "made and ephemeral": of(storage={}, ephemeral=True),
            "existing and ephemeral": of(existingClaim="mine", ephemeral=True),
        },
    )
    yield from group(
        Rule(INSTANCES, where, "sizeLimit is for ephemeral"),
        {"a limit and ephemeral": of(ephemeral=True, sizeLimit="5Gi"), "no limit": of(ephemeral=True)},
        {
            "a limit alone": of(sizeLimit="5Gi"),
            "a limit of a claim": of(storage={}, sizeLimit="5Gi"),
            "a limit, not ephemeral": of(ephemeral=False, sizeLimit="5Gi"),
        },
    )
    yield from group(
        Rule(INSTANCES, where, "sizeLimit must be greater than 0"),
        {"small": of(ephemeral=True, sizeLimit="1Mi"), "a number": of(ephemeral=True, sizeLimit=1048576)},
        {"nothing": of(ephemeral=True, sizeLimit="0"), "nothing as a number": of(ephemeral=True, sizeLimit=0)},
    )
    made, existing, ephemeral = of(storage={}), of(existingClaim="mine"), of(ephemeral=True)
    kind = Rule(INSTANCES, where, "the kind of storage is immutable")
    yield from group(
        kind, {"kept": made, "by default": of()}, {"made to ephemeral": ephemeral, "made to existing": existing}, made
    )
    yield from group(kind, {"kept claim": existing}, {"another claim": of(existingClaim="yours")}, existing)
    yield from group(kind, {"kept ephemeral": ephemeral}, {"ephemeral to made": made}, ephemeral)
    yield from group(
        Rule(INSTANCES, "", f"spec.{volume}.storage.size: a volume cannot shrink"),
        {size: of(storage={"size": size}) for size in ("1Gi", "1024Mi", "1025Mi", "2Gi", "1Ti")},
        {size: of(storage={"size": size}) for size in ("1023Mi", "1G", "1")},
        of(storage={"size": "1Gi"}),
    )
    yield from group(
        Rule(INSTANCES, f"{where}.storage", "a volume has a size"),
        {size: of(storage={"size": size}) for size in ("1", "100Mi")},
        {size: of(storage={"size": size}) for size in ("0", "0Gi", "-1Gi")},
    )
    yield from group(
        Rule(INSTANCES, f"{where}.storage", "accessModes is immutable"),
        {"kept": of(storage={"accessModes": ["ReadWriteMany"]})},
        {"changed": of(storage={"accessModes": ["ReadWriteOncePod"]}), "defaulted": of(storage={})},
        of(storage={"accessModes": ["ReadWriteMany"]}),
    )
    a_class = Rule(INSTANCES, f"{where}.storage", "storageClassName is immutable")
    fast, slow = of(storage={"storageClassName": "fast"}), of(storage={"storageClassName": "slow"})
    yield from group(a_class, {"kept": fast}, {"changed": slow, "removed": made}, fast)
    yield from group(a_class, {"still none": made}, {"added": fast}, made)


def _idle() -> Iterator[Example]:
    def of(**idle: int) -> Json:
        return instance(idle=idle)

    yield from group(
        Rule(INSTANCES, "spec.idle", "idle.suspendAfterSeconds must be smaller"),
        {
            "in order": of(suspendAfterSeconds=10, deleteAfterSeconds=11),
            "suspend only": of(suspendAfterSeconds=10),
            "delete only": of(deleteAfterSeconds=10),
        },
        {
            "the same": of(suspendAfterSeconds=10, deleteAfterSeconds=10),
            "the other way round": of(suspendAfterSeconds=11, deleteAfterSeconds=10),
        },
    )


def _template(**fields: Any) -> Json:
    return instance(podTemplate=fields)


def _volumes() -> Iterator[Example]:
    def of(**volume: Any) -> Json:
        return _template(volumes=[{"name": "extra", **volume}])

    yield from group(
        Rule(INSTANCES, "spec.podTemplate.volumes[]", "a volume has exactly one of these sources"),
        {source: of(**{source: {}}) for source in BOUND_SOURCES},
        {"none": of(), "two": of(emptyDir={}, secret={})},
    )
    yield from group(
        Rule(INSTANCES, "spec.podTemplate.volumes[]", "these volume names belong to the operator"),
        {"data": of(emptyDir={})},
        {name: of(name=name, emptyDir={}) for name in RESERVED_VOLUMES},
    )


def _mounts() -> Iterator[Example]:
    def at(path: str) -> Json:
        mount = {"name": "extra", "mountPath": path}
        return _template(volumes=[{"name": "extra", "emptyDir": {}}], volumeMounts=[mount])

    below = ("/efrit/lisp", "/etc/efrit/bridge", "/var/lib/efrit/queue")
    yield from group(
        Rule(INSTANCES, "spec.podTemplate.volumeMounts[]", "these paths belong to the operator"),
        {
            path: at(path)
            for path in ("/data", "/workspace/shared", "/home/efrit/.emacs.d", "/efrit-data", "/var/lib")
        },
        {path: at(path) for path in (*RESERVED_MOUNTS, *below)},
    )
    yield from group(
        Rule(INSTANCES, "spec.podTemplate.volumeMounts[]", "write the path plainly"),
        {path: at(path) for path in ("/.config", "/a/.b", "/a/..b", "/a/...", "/a.")},
        {
            path: at(path)
            for path in ("/workspace/", "//workspace", "/./workspace", "/data/../workspace", "/a/..", "/.")
        },
    )


PRIVILEGED = (
    "container.apparmor.security.beta.kubernetes.io/emacs",
    "container.seccomp.security.alpha.kubernetes.io/emacs",
    "seccomp.security.alpha.kubernetes.io/pod",
    "k8s.v1.cni.cncf.io/networks",
    "v1.multus-cni.io/default-network",
    "cni.projectcalico.org/ipAddrs",
    "eks.amazonaws.com/role-arn",
    "iam.amazonaws.com/role",
    "iam.gke.io/gcp-service-account",
    "azure.workload.identity/use",
    "io.kubernetes.cri-o.Devices",
    "cpu-quota.crio.io",
    "devices.nri.io/container.emacs",
    "io.katacontainers.config.hypervisor.path",
    "scheduler.alpha.kubernetes.io/critical-pod",
)


def _network() -> Iterator[Example]:
    def model(field: str, url: str) -> Json:
        return instance(model={"name": "m", "apiKeySecretRef": {"name": "k", "key": "k"}, field: url})

    for field in ("baseURL", "proxyURL"):
        tail = "/v1" if field == "baseURL" else ""
        yield from group(
            Rule(INSTANCES, "spec.model", f"{field} is a link-local address or a metadata service"),
            {
                host: model(field, f"http://{host}{tail}")
                for host in ("10.0.0.1:8080", "[2001:db8::1]", "metadata.org")
            },
            {
                host: model(field, f"http://{host}{tail}")
                for host in (
                    "169.254.169.254",
                    "169.254.1.1:80",
                    "[fe80::1]:8080",
                    "[FD00:EC2::254]",
                    "[::ffff:169.254.169.254]",
                    "metadata.google.internal",
                    "metadata",
                )
            },
        )
        yield from group(
            Rule(INSTANCES, "spec.model", f"{field} is in a namespace of Kubernetes"),
            {
                host: model(field, f"http://{host}{tail}")
                for host in ("m.models", "kube-proxy.models.svc", "kube-model")
            },
            {
                host: model(field, f"http://{host}{tail}")
                for host in ("m.kube-system", "m.kube-system.svc:80", "m.kube-public.svc.cluster.local.")
            },
        )

    def egress(*rules: Json) -> Json:
        return instance(network={"egress": list(rules)})

    def block(cidr: str, *without: str) -> Json:
        part = {"except": list(without)} if without else {}
        return egress({"to": [{"ipBlock": {"cidr": cidr, **part}}]})

    yield from group(
        Rule(INSTANCES, "spec.network", "each rule of network.egress names its peers"),
        {"a peer": block("192.0.2.0/24"), "none": egress()},
        {"empty": egress({}), "ports alone": egress({"ports": [{"port": 443}]}), "no peers": egress({"to": []})},
    )
    yield from group(
        Rule(INSTANCES, "spec.network", "an ipBlock of network.egress contains the metadata service 169.254.169.254"),
        {"without it": block("0.0.0.0/0", "169.254.0.0/16"), "another": block("10.0.0.0/8"), "no range": block("x")},
        {
            "all": block("0.0.0.0/0"),
            "it": block("169.254.169.254/32"),
            "no range": block("0.0.0.0/0", "10.0.0.0/8", "x"),
        },
    )
    yield from group(
        Rule(INSTANCES, "spec.network", "an ipBlock of network.egress contains the metadata service fd00:ec2::254"),
        {"without it": block("::/0", "fc00::/7")},
        {"all": block("::/0"), "it": block("fd00:ec2::254/128")},
    )


def _pod() -> Iterator[Example]:
    yield from group(
        Rule(INSTANCES, "spec.podTemplate.env[]", "names that start with EFRIT_ belong to the operator"),
        {name: _template(env=[{"name": name, "value": "x"}]) for name in ("EDITOR", "MY_EFRIT_DIR", "EFRITS")},
        {name: _template(env=[{"name": name, "value": "x"}]) for name in ("EFRIT_QUEUE_DIR", "EFRIT_")},
    )
    yield from group(
        Rule(INSTANCES, "spec.podTemplate", "labels under efrit.dev/ and app.kubernetes.io/"),
        {key: _template(labels={key: "x"}) for key in ("team", "efrit.example/team")},
        {key: _template(labels={key: "x"}) for key in ("efrit.dev/instance", "app.kubernetes.io/name")},
    )
    for field in ("annotations", "labels"):
        yield from group(
            Rule(INSTANCES, "spec.podTemplate", f"these {field} give a pod networks, identities or privileges"),
            {
                key: _template(**{field: {key: "x"}})
                for key in ("team", "prometheus.io/scrape", "example.org/iam.gke.io")
            },
            {key: _template(**{field: {key: "x"}}) for key in PRIVILEGED},
        )
    yield from group(
        Rule(INSTANCES, "spec.podTemplate", "priority classes system-… are for what the cluster runs on"),
        {name: _template(priorityClassName=name) for name in ("low", "my-system-class")},
        {name: _template(priorityClassName=name) for name in ("system-node-critical", "system-cluster-critical")},
    )
    volumes = [{"name": "data", "emptyDir": {}}]
    yield from group(
        Rule(INSTANCES, "spec.podTemplate", "every volumeMount names a volume of podTemplate.volumes"),
        {"a volume": _template(volumes=volumes, volumeMounts=[{"name": "data", "mountPath": "/data"}])},
        {
            "no volumes": _template(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
            "another volume": _template(volumes=volumes, volumeMounts=[{"name": "date", "mountPath": "/data"}]),
        },
    )
