"""The group and version of the custom resources, and the names beside them that the controller and clients share.

Light to import: no pydantic.
"""

GROUP = "efrit.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

POOL_LABEL = f"{GROUP}/pool"
"""Label of an instance that is a member of a pool; also what makes a pool where there is no EfritPool."""
REVISION_LABEL = f"{GROUP}/pool-revision"
"""Label of the template, by its digest: of each member that was made from it, and of what keeps it."""
RESTORED_ANNOTATION = f"{GROUP}/restored-template"
"""Annotation of a pool: the number and digest of the former template that a client has restored last, as `2 DIGEST`.

A restored template gets another number: whoever repeats the call would not find the first one."""
MAX_CONTENT_CHARS = 245_760
"""Of a request. A character may take six bytes in etcd, an object 1.5 MiB: the rest is for metadata and status."""
PREFIX = "efrit-"
"""What the names of the objects that the controller makes for an instance or a pool begin with."""
EMACS_CONTAINER = "emacs"
"""The container of a pod in which Emacs runs."""
QUEUE_MOUNT = "/var/lib/efrit"
QUEUE_DIR = f"{QUEUE_MOUNT}/queue"
"""The queue, in both containers of a pod."""
WORKSPACE = "/workspace"
LARGEST_REVISION = 2**52
"""No pool has had so many templates: what has a larger number was written by somebody else."""


def statefulset_name(instance: str) -> str:
    """Return the name of the StatefulSet of an instance of this name."""
    return f"{PREFIX}{instance}"


def pod_name(instance: str) -> str:
    """Return the name of the pod of an instance of this name."""
    return f"{statefulset_name(instance)}-0"


def revision_name(pool: str, digest: str) -> str:
    """Return the name of the ControllerRevision of a template that a pool of this name has or had."""
    return f"{pool}-{digest}"
