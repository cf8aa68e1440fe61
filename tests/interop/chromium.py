"""Headless Chromium through its DevTools pipe: open pages, click, type, look. One message is JSON that ends in NUL."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.peers import lacking

__all__ = ["Chromium", "require_chromium"]

_WAIT_S = 30.0


def require_chromium() -> str:
    """Skip the test unless Chromium is installed; return its path."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path is not None:
            return path
    lacking("needs Chromium (the package `chromium`), which is not on the PATH")
    return None


class Chromium:
    """A browser with one page. Commands run in the order of the calls."""

    def __init__(self, path: str, folder: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        arguments = [
            path,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--no-proxy-server",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *arguments],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number = 0
        self._received = b""
        self._session = ""
        self.problems: list[str] = []
        """Console errors, exceptions and alert() texts of pages."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def close(self) -> None:
        self._session = ""
        try:
            self._ask("Browser.close")
            self._process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(10)
        os.close(self._out)
        os.close(self._in)

    def size(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def log_in(self, authorization: str) -> None:
        self._ask("Network.setExtraHTTPHeaders", headers={"Authorization": authorization})

    def open(self, url: str) -> None:
        self._ask("Page.navigate", url=url)
        self.wait_for(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {json.dumps(answer['exceptionDetails'])[:500]}")
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            try:
                if self.run(f"!!({condition})"):
                    return
            except AssertionError:
                pass  # Between two pages no document exists.
            time.sleep(0.05)
        raise AssertionError(f"{condition} did not come true; the page: {self.run('document.body.innerText')[:2000]}")

    def click(self, selector: str) -> None:
        """Click the element with the mouse at its position."""
        place = self.run(
            "(element => { element.scrollIntoView({block: 'center'}); const box = element.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self._ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, selector: str, text: str) -> None:
        self.run(f"(e => {{ e.focus(); e.select?.(); }})(document.querySelector({json.dumps(selector)}))")
        self._ask("Input.insertText", text=text)
        self.run(
            f"document.querySelector({json.dumps(selector)}).dispatchEvent(new Event('change', {{bubbles: true}}))"
        )

    def screenshot(self, path: Path) -> None:
        data = self._ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _ask(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        method, details = event.get("method"), event.get("params", {})
        if method == "Page.javascriptDialogOpening":
            self.problems.append(f"dialog: {details['message']}")
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details)[:1000])
        elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.problems.append(f"{details['entry']['text']} {details['entry'].get('url', '')}")

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _WAIT_S
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError("Chromium does not answer")
            self._received += data
        line, self._received = self._received.split(b"\0", 1)
        found: dict[str, Any] = json.loads(line)
        return found
