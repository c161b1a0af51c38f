"""A headless Chromium, driven through its debugging pipe (the Chrome DevTools Protocol), for tests of pages.

    browser = Browser()
    browser.open(path, width=1200, height=800)
    browser.evaluate("document.title")
    browser.close()
"""

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """Returns the program, or None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page. `console` holds what scripts said on it: errors, warnings, exceptions, refused requests."""

    def __init__(self, program=None):
        self.console = []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def pass_pipes():   # the protocol uses the descriptors 3 and 4; away from there first
            ends = os.dup(to_browser), os.dup(from_browser)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(   # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            [program or find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pass_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._buffer, self._events, self._session = 0, b"", [], None
        pages = [target for target in self.call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        """Ends the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()

    def call(self, method, **parameters):
        """Calls a method of the protocol and returns its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _read(self, limit=60):
        end = time.monotonic() + limit
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, end - time.monotonic()))
            piece = os.read(self._in, 1 << 16) if ready else b""
            if not piece:
                raise TimeoutError("the browser does not answer")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.console.append(str([value.get("value", value.get("description")) for value in parameters["args"]]))
        elif event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.console.append(parameters["entry"]["text"])
        self._events.append(event.get("method"))

    def open(self, page, address="", width=1200, height=900, dark=False):
        """Loads a file or a URL, with an address behind it such as "#event=3", and waits until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._events.clear()
        self._number += 1   # an address that differs after its # alone would not be loaded again
        url = page if isinstance(page, str) else page.resolve().as_uri()
        self.call("Page.navigate", url=f"{url}?{self._number}{address}")
        while "Page.loadEventFired" not in self._events:
            self._note(self._read())

    def evaluate(self, expression):
        """Returns the value of an expression in the page, or None between two pages; a promise is awaited."""
        try:
            result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        except RuntimeError as wrong:
            if "navigated" not in str(wrong):
                raise
            return None
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", "the expression failed"))
        return result["result"].get("value")

    def text(self, selector):
        """The text of the first element that a selector finds."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def middle(self, selector):
        """The middle of the first element that a selector finds, in the window."""
        return self.evaluate(f"(() => {{ const found = document.querySelector({json.dumps(selector)}); "
                             "found.scrollIntoView({block: 'nearest'}); const box = found.getBoundingClientRect(); "
                             "return [box.x + box.width / 2, box.y + box.height / 2]; })()")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        """Clicks the middle of an element with the real pointer."""
        x, y = self.middle(selector)
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def press(self, key, shift=False):
        """Presses a key: "ArrowRight", "n"; "Enter" also submits a form."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **more)

    def screenshot(self, path, whole=True):
        """Writes a picture of the page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
