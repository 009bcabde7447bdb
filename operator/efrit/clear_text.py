"""Whether what is sent to a URL can be read on its way by others than a machine, a cluster or a private network.

`efrit-settings-in-the-clear-p` of the Lisp decides the same for Emacs.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_LABEL = re.compile(r"[a-z0-9_-]+")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_NAME = re.compile(r"[a-z0-9._-]+")
"""Of a host. Other characters may be another dot, or become one."""
_PRIVATE = tuple(map(ipaddress.ip_network, ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_PRIVATE_6 = tuple(map(ipaddress.ip_network, ("::1/128", "fc00::/7")))


def sent_in_the_clear(url: str) -> bool:
    """Return whether a credential sent to `url` could be read outside a private network."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return False
    host = (parts.hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if _LABEL.fullmatch(host):
            # What has no letter but those of a number is an address to curl and the C library.
            return _NUMBER.fullmatch(host) is not None
        inside = host.endswith((".localhost", ".svc", ".cluster.local")) or ".svc." in host
        return not (inside and _NAME.fullmatch(host))
    return not any(address in network for network in (*_PRIVATE, *_PRIVATE_6) if network.version == address.version)
