"""The group and version of the custom resources, and a label that clients read. Light to import: no pydantic."""

GROUP = "efrit.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

POOL_LABEL = f"{GROUP}/pool"
"""Label of an instance that is a member of a pool; also what makes a pool where there is no EfritPool."""
