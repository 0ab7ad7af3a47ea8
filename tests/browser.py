"""Headless Chromium for the tests of pages: one browser, opened on files, which may load nothing else."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

MOST_BYTES = 5_000_000
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=1280,1600",
)


class Browser:
    """Pages as a reader has them, each in its turn as the file `page`.

    Chromium keeps what it compiled of a script, as of plotly.js, for a page of the same address alone: half the work of
    a page.
    """

    def __init__(self, driver: webdriver.Chrome, page: Path) -> None:
        self.driver, self._page = driver, page

    def open(self, path: Path) -> None:
        """Open a page and wait until it is drawn; it must be small, and silent on the console and the network."""
        assert path.stat().st_size < MOST_BYTES
        self.requests(), self.driver.get_log("browser")  # what came before is of another page
        shutil.copyfile(path, self._page)
        self.driver.get(self._page.as_uri())
        self.wait("return document.documentElement.dataset.ready === 'yes'")
        self.quiet()

    def quiet(self) -> None:
        """Nothing was told on the console, nothing asked for but the page itself."""
        assert self.driver.get_log("browser") == []
        own = ("data:", "blob:", "chrome:", "chrome-")  # the last two: the browser's first tab
        assert [url for url in self.requests() if not url.startswith(own) and url != self._page.as_uri()] == []

    def requests(self) -> list[str]:
        """Return what was asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until the script's value is true."""
        end = time.monotonic() + 60
        while not self.js(condition, *arguments):
            assert time.monotonic() < end, f"never true in the page: {condition}"
            time.sleep(0.02)

    @contextmanager
    def phone(self) -> Iterator[None]:
        """Show the page as on a telephone, upright."""
        size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    @contextmanager
    def window(self, width: int) -> Iterator[None]:
        """Show the page as on a screen of `width` pixels."""
        size = {"width": width, "height": 1080, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    @contextmanager
    def paper(self) -> Iterator[None]:
        """Show the page as on paper of 717 pixels (A4 less its margins), printed by a reader who has dark pages."""
        size = {"width": 717, "height": 1050, "deviceScaleFactor": 1, "mobile": False}
        self.dark(True)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.js("window.dispatchEvent(new Event('beforeprint'))")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.dark(True)
            self.js("window.dispatchEvent(new Event('afterprint'))")

    def dark(self, on: bool) -> None:
        value = "dark" if on else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Skips where Chromium or its driver is absent. `folder`, an empty one, is for its profile and the page."""
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("pages are tested in headless Chromium: chromium and chromedriver are not here")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(running, folder / "page.html")
    finally:
        running.quit()
