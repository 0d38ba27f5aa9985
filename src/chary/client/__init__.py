"""The client of a service: a remote session that asks as a session in the same process does."""

from chary.client.remote import AsyncRemote, Remote, RemoteRun, connect, connect_async
from chary.client.transport import check_webhook

__all__ = ["AsyncRemote", "Remote", "RemoteRun", "check_webhook", "connect", "connect_async"]
