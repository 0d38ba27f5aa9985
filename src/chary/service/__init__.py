"""The service: one door for many analysts, over HTTP; and the client that asks through it as a session asks.

`chary serve` opens it; `connect` asks it. Everything about privacy is in the calls and the spine: here is none of it.
Needs the extra `service`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chary.service.client.async_session import AsyncRemote, connect_async
    from chary.service.client.remote_run import RemoteRun
    from chary.service.client.remote_session import Remote, connect
    from chary.service.telling.signatures import check_webhook

__all__ = ["AsyncRemote", "Remote", "RemoteRun", "check_webhook", "connect", "connect_async"]
_HOMES: Final = {
    "AsyncRemote": "client.async_session",
    "Remote": "client.remote_session",
    "RemoteRun": "client.remote_run",
    "check_webhook": "telling.signatures",
    "connect": "client.remote_session",
    "connect_async": "client.async_session",
}

if not TYPE_CHECKING:  # a checker would take every misspelt name for one that is found here

    def __getattr__(name: str) -> Any:
        """A public name, loaded when it is first used: a client needs no server, a server no client."""
        if name not in _HOMES:
            raise AttributeError(f"module 'chary.service' has no attribute {name!r}")
        return getattr(import_module(f"chary.service.{_HOMES[name]}"), name)
