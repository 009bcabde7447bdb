"""A credential is sent over http only where nobody else is on the way."""

from __future__ import annotations

import pytest

from efrit.clear_text import sent_in_the_clear

# images/emacs/test/efrit-model-test.el has the same.
PRIVATE = [
    "https://api.example.org",
    "http://localhost:8080/x",
    "http://127.0.0.1:1",
    "http://127.1.2.3",
    "http://[::1]:80",
    "http://model",
    "http://model.team.svc",
    "http://model.team.svc.cluster.local:80/v1",
    "http://model.localhost",
    "http://10.1.2.3",
    "http://172.16.0.1",
    "http://192.168.1.2:11434",
    "http://[fd00::1]",
]
PUBLIC = [
    "http://api.example.org",
    "http://172.32.0.1",
    "http://8.8.8.8",
    "http://[2001:db8::1]:80",
    "http://localhost.example.org",
    "http://127.0.0.1.example.org",
    "http://10.example.org",
    "http://svc.example.org",
    "http://134744072",
    "http://0x08080808/v1",
    "http://api%2eexample%2eorg",
    "http://api\u3002example\uff0eorg",
    "http://api%2eexample%2eorg.svc",
    "http://api.example.org?@localhost/",
    "http://api.example.org#@localhost/",
    "HTTP://api.example.org",
    "http://[::ffff:8.8.8.8]",
]


@pytest.mark.parametrize("url", PRIVATE + PUBLIC)
def test_only_what_leaves_a_private_network_unencrypted_is_in_the_clear(url: str) -> None:
    assert sent_in_the_clear(url) == (url in PUBLIC)
