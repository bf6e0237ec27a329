"""Where work runs: the cores of this process, or a Dask cluster by the address of its scheduler."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

SECONDS = 5.0
"""How long to wait for an answer."""


def cores() -> int:
    """Cores that this process may use, fewer than the machine has in a container or under a batch system."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def connect(address: str) -> Any:
    """A client of the scheduler at an address such as tcp://host:8786 (or host:8786).

    The port is tried before Dask is asked, which would go on trying in the background and complain when Python ends,
    and would wait forever for somebody who takes the call and says nothing: a scheduler speaks first.
    """
    try:
        import distributed  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise ValueError(
            "engine: a cluster needs the extra droptics[dask]; install it with `pip install 'droptics[dask]'`"
        ) from error
    dask: Any = distributed
    full = address if "://" in address else f"tcp://{address}"
    try:
        parts = urlsplit(full)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"engine: {address!r} is not an address; write tcp://host:port") from error
    if parts.scheme != "inproc" or not parts.path.startswith(f"/{os.getpid()}/"):  # of a scheduler in this very process
        _call(address, parts.scheme, host, port, dask)
    try:
        return dask.Client(full, timeout=SECONDS, set_as_default=False)
    except OSError as error:
        raise ValueError(f"engine: what answers at {address} is no Dask scheduler; check the address") from error


def _call(address: str, scheme: str, host: str | None, port: int | None, dask: Any) -> None:
    """Whether somebody answers there."""
    if not host or not port or scheme not in ("tcp", "tls", "ws", "wss"):
        raise ValueError(f"engine: {address!r} is not an address; write tcp://host:port")
    if scheme == "tls" and dask.Security().get_connection_args("client")["ssl_context"] is None:
        raise ValueError(f"engine: {address} asks for certificates; name them in Dask's distributed.comm.tls")
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as line:
            if scheme == "tcp":
                line.recv(1)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"engine: no Dask scheduler answers at {address} ({error}); check the address") from error
