"""The client of a service: a remote session that asks as a session in the same process does."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from chary.client.json_remote import JSONRemote, connect_json
    from chary.client.remote import AsyncRemote, Remote, RemoteRun, connect, connect_async
    from chary.client.webhooks import check_webhook

__all__ = [
    "AsyncRemote",
    "JSONRemote",
    "Remote",
    "RemoteRun",
    "check_webhook",
    "connect",
    "connect_async",
    "connect_json",
]
# Names that need no session, and where they are.
_ALONE: Final = {"check_webhook": "webhooks", "connect_json": "json_remote", "JSONRemote": "json_remote"}

if not TYPE_CHECKING:  # a checker would take every misspelt name for one that is found here

    def __getattr__(name: str) -> Any:
        """A public name, loaded when it is first used: who checks webhooks, or asks in JSON, needs no session."""
        if name not in __all__:
            raise AttributeError(f"module 'chary.client' has no attribute {name!r}")
        return getattr(import_module(f"chary.client.{_ALONE.get(name, 'remote')}"), name)
