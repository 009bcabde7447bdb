"""One Kubernetes client and one table of resources, for the controller, the client library and the tests."""

from efrit.kube.lazy_library import defer_package

defer_package("kubernetes")
