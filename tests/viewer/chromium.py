"""A real Chromium for tests, driven over its debugging pipe: no driver, no port, no package."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_PIPES = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""Gives Chromium its pipes under the numbers that it wants."""


def find_chromium() -> str | None:
    """Return the path of a Chromium; None if this machine has none."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Navigated(Exception):
    """The page that a command was for is gone: another one was opened."""


class Tab:
    """One page of the browser: commands, and everything that it complained about or asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from, self._rest, self._number = to_browser, from_browser, b"", 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, url: str) -> None:
        """Open an address and wait until its page is drawn."""
        if self._session is None:
            target = self.command("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.command(f"{domain}.enable")
        self.command("Page.navigate", url="about:blank")
        self.requests.clear()
        self.command("Page.navigate", url=url)
        self.wait("document.body && (document.body.dataset.ready === '1')")

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        said: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith("Target."):
            said["sessionId"] = self._session
        os.write(self._to, json.dumps(said).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "navigated" in answer.get("error", {}).get("message", ""):
                    raise Navigated
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._heard(answer)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        done = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, (script, done)
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait for the frame in which a condition of the page holds; complain after 600 of them."""
        holds = f"""new Promise((done) => {{
            let left = 600;
            const look = () => ({condition}) ? done(true) : left-- ? setTimeout(look, 16) : done(false);
            look();
        }})"""
        for _ in range(3):  # at most two pages may go by
            with suppress(Navigated):
                holding = self.run(holds)
                break
        else:
            holding = False
        assert holding, (condition, self.run("document.body.innerText.slice(0, 2000)"), self.complaints)

    def press(self, key: str) -> None:
        """Press and release a key, and wait until the page has drawn."""
        text = {"text": key} if len(key) == 1 else {}
        self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", key=key)
        self._settle()

    def click(self, x: float, y: float, *, modifiers: int = 0) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.command(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, modifiers=modifiers
            )
        self._settle()

    def click_on(self, selector: str, *, at: tuple[float, float] = (0.5, 0.5), modifiers: int = 0) -> None:
        """Click on an element, at these shares of its width and height."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.run(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        self.click(box["x"] + box["width"] * at[0], box["y"] + box["height"] * at[1], modifiers=modifiers)

    def text(self, selector: str) -> str:
        return self.run(f"document.querySelector({selector!r}).textContent")

    def _settle(self) -> None:
        """Wait for two frames: a change is drawn with the next one."""
        with suppress(Navigated):
            self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            assert more, "Chromium has ended"
            self._rest += more
        line, self._rest = self._rest.split(b"\0", 1)
        return json.loads(line)

    def _heard(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(str(params["entry"]))
            case _:
                pass


@contextmanager
def chromium(path: str, profile: Path) -> Iterator[Tab]:
    """Start a browser with an empty profile, and end it with the block."""
    child_reads, we_write = os.pipe()
    we_read, child_writes = os.pipe()
    command = [
        sys.executable,
        "-c",
        _PIPES,
        str(child_reads),
        str(child_writes),
        path,
        *FLAGS,
        f"--user-data-dir={profile}",
    ]
    process = subprocess.Popen(
        command, pass_fds=(child_reads, child_writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(child_reads)
    os.close(child_writes)
    try:
        yield Tab(we_write, we_read)
    finally:
        process.terminate()
        process.wait(30)
        os.close(we_write)
        os.close(we_read)
