"""The group and version of the custom resources. Light to import: no pydantic."""

GROUP = "efrit.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
