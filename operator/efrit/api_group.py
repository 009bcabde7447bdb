"""The group and version of the custom resources, and labels that clients read. Light to import: no pydantic."""

GROUP = "efrit.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

POOL_LABEL = f"{GROUP}/pool"
"""Label of an instance that is a member of a pool; also what makes a pool where there is no EfritPool."""
REVISION_LABEL = f"{GROUP}/pool-revision"
"""Label of the template, by its digest: of each member that was made from it, and of what keeps it."""
