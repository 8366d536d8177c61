"""Headless Chromium, told what to do over its DevTools protocol.

A driver such as Playwright would bring 160 MB and an environment of its own for the few commands that are needed here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.waiting import wait_until
from tools.cli.checks import chromium

# A slow machine is no reason to fail: only a hang is.
PATIENCE_S = 60.0
_POLL_S = 0.05


class Page:
    """One tab. `problems` are the errors of its scripts and console, `requested` the addresses it loaded from."""

    def __init__(self, connection: ClientConnection, downloads: Path) -> None:
        self.problems: list[str] = []
        self.requested: list[str] = []
        self._connection = connection
        self._downloads = downloads
        self._numbers = itertools.count(1)
        self._session: str | None = None
        target = self._command("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._command(f"{domain}.enable")
        self._command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def open(self, address: str) -> None:
        """Go there and wait until the page has loaded."""
        answer = self._command("Page.navigate", url=address)
        assert "errorText" not in answer, f"{address}: {answer['errorText']}"
        self.wait("document.readyState === 'complete'")

    def ask(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self._command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """Wait until the expression is true; what is not there yet counts as false."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            answer = self._command("Runtime.evaluate", expression=script, returnByValue=True)
            if answer["result"].get("value"):
                return answer["result"]["value"]
            time.sleep(_POLL_S)
        raise AssertionError(f"never true: {script}\nthe page shows:\n{self.ask('document.body.innerText')}")

    def click(self, selector: str, text: str = "") -> None:
        """Click the element, once it is there; of several, the first whose text is `text`."""
        wanted, words = json.dumps(selector), json.dumps(text.lower())
        has_words = f"(e) => !{words} || e.innerText.trim().toLowerCase() === {words}"
        found = f"[...document.querySelectorAll({wanted})].find({has_words})"
        self.wait(f"!!{found}")
        self.ask(f"{found}.click()")

    def write(self, selector: str, text: str) -> None:
        """Replace what is written in an input."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})")
        self.ask(f"(e => {{ e.focus(); e.select(); }})(document.querySelector({json.dumps(selector)}))")
        self._command("Input.insertText", text=text)

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})")
        chosen = self.ask(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")
        assert self.ask(f"document.querySelector({json.dumps(selector)}).value") == chosen

    def prefer(self, scheme: str) -> None:
        """Be on a desktop whose colours are "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", features=features)

    def downloaded(self, name: str) -> Path:
        """The file of that name, once it is whole."""
        path = self._downloads / name
        wait_until(path.exists, PATIENCE_S)
        return path

    def _command(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._connection.send(json.dumps(message))
        while True:
            answer = json.loads(self._connection.recv(timeout=PATIENCE_S))
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _note(self, event: str, parameters: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif event == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent":
            self.requested.append(parameters["request"]["url"])


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """A page in a Chromium of its own, which keeps everything it writes in `folder`."""
    program = chromium()
    assert program is not None, "these tests are marked browser, and deselected where there is no Chromium"
    profile, downloads = folder / "profile", folder / "downloads"
    downloads.mkdir()
    command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [
        "--disable-background-networking",
        "--window-size=1280,1000",
        f"--user-data-dir={profile}",
        "--remote-debugging-port=0",
    ]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        with connect(_address(profile / "DevToolsActivePort", process), max_size=None) as connection:
            yield Page(connection, downloads)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    """Where Chromium listens: it writes its port and path there, one a line."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, (file.parent.parent / "chromium.log").read_text(errors="replace")
        lines = file.read_text().split() if file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(_POLL_S)
    raise AssertionError("Chromium does not listen")
