"""A headless Chromium without network, for tests of a page."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--no-sandbox", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Seen(NamedTuple):
    """A page, its requests to other addresses, and its console errors."""

    page: Page
    requests: list[str]
    complaints: list[str]


def chromium() -> str:
    """Return the first Chromium on PATH; skip the test if there is none."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("Chromium: none on PATH (Debian: apt-get install chromium)")
    return path


OPEN: list[Browser] = []


@contextmanager
def started() -> Generator[Browser]:
    """The browser that is open, or one that is closed again."""
    if OPEN:
        yield OPEN[0]
        return
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def one_browser() -> Generator[None]:
    """One browser for all tests of a file; each has pages of its own."""
    with started() as browser:
        OPEN.append(browser)
        try:
            yield
        finally:
            OPEN.remove(browser)


@contextmanager
def opened(place: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Generator[Seen]:
    """Open a file, or an address on 127.0.0.1, in a window of `width` × `height` CSS pixels."""
    with started() as browser:
        scheme = "dark" if dark else "light"
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.set_default_timeout(300_000)  # what comes, comes when the machine lets it
        seen = Seen(page, [], [])
        url = place if isinstance(place, str) else place.resolve().as_uri()
        page.on("request", lambda request: seen.requests.append(request.url) if request.url != url else None)
        page.on("console", lambda message: seen.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.goto(url)
        try:
            yield seen
        finally:
            page.close()
