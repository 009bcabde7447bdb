"""One Kubernetes client and one table of resources, for the controller, the client library and the tests."""
