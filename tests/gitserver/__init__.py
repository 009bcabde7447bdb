"""A git server over HTTP for the tests: repositories anybody may clone, and one that wants a token."""
