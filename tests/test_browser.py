"""The quick start in JupyterLab, in a real browser: cells run, a control moves, the lake and the curve change."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "01_quickstart.ipynb"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
RUN_SECONDS = 180
REDRAW_SECONDS = 20  # of patience: the figures follow within a second or two on a quiet machine

pytestmark = pytest.mark.browser


@pytest.fixture
def lab(tmp_path) -> Iterator[str]:
    """The address of a JupyterLab that serves a copy of the notebook."""
    shutil.copy(NOTEBOOK, tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = hashlib.sha256(os.urandom(32)).hexdigest()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += [
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--notebook-dir={tmp_path}",
    ]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": str(ROOT),
    }
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=tmp_path, env=environment, start_new_session=True
        )
        try:
            _wait_for_port(port, server, tmp_path / "server.log")
            yield f"http://127.0.0.1:{port}/lab/tree/{NOTEBOOK.name}?token={token}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(20)


def _wait_for_port(port: int, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab does not answer: {log.read_text()}")


@pytest.fixture
def browser(tmp_path):
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install '.[browser]'"
    )
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(
            "there is no Chromium with its chromedriver on this machine (Debian: chromium, chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1500,2400"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path / 'browser'}")
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield started
    finally:
        started.quit()


PICTURES = """
const done = arguments[0];
const images = [...document.querySelectorAll('.swiftrl-explorer img')];
Promise.all(images.map(async image => {
  const bytes = await (await fetch(image.src)).arrayBuffer();
  return image.naturalWidth + ':' + [...new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))].join(',');
})).then(done, error => done([String(error)]));
"""


KERNEL_IS_IDLE = "document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]') !== null"
DIALOG = "document.querySelector('.jp-Dialog .jp-mod-accept')"
STARTED = (
    "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(e => /[*\\d]/.test(e.innerText))"
)
ERROR = "[data-mime-type='application/vnd.jupyter.error']"


def test_the_quick_start_runs_and_a_control_changes_the_figures(lab, browser):
    browser.set_script_timeout(30)
    browser.get(lab)
    _until(browser, "document.querySelectorAll('.jp-Notebook .jp-CodeCell').length > 0", 90)
    for _ in range(5):  # JupyterLab says that it is idle before it has a kernel, and then asks for one
        _until(browser, f"{KERNEL_IS_IDLE} || {DIALOG} !== null", 90)
        _accept_kernel(browser)
        _run_all(browser)
        if _soon(browser, f"{STARTED} && {DIALOG} === null", 10):
            break
    _until(browser, "document.querySelectorAll('.swiftrl-explorer img').length == 2", RUN_SECONDS)
    _until(browser, f"{_executed()} == {_code_cells()}", RUN_SECONDS)
    errors = browser.execute_script(f'return [...document.querySelectorAll("{ERROR}")].map(e => e.innerText)')
    assert not errors, errors

    before = browser.execute_async_script(PICTURES)
    assert len(before) == 2
    assert all(int(picture.split(":")[0]) > 100 for picture in before), "a figure is empty"
    took = _move(browser, "cores", before)
    print(f"figures followed the control after {took:.1f} s")


def _move(browser, name: str, before: list[str]) -> float:
    """Move a slider by its keyboard to its largest value; return the seconds until both figures have changed."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    sliders = browser.find_elements(By.CSS_SELECTOR, ".swiftrl-explorer .widget-hslider")
    slider = next(entry for entry in sliders if name in entry.text)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", slider)
    handle = slider.find_element(By.CSS_SELECTOR, ".noUi-handle")
    start = time.monotonic()
    handle.send_keys(Keys.END)
    while time.monotonic() - start < REDRAW_SECONDS:
        after = browser.execute_async_script(PICTURES)
        if len(after) == 2 and all(one != other for one, other in zip(before, after, strict=True)):
            return time.monotonic() - start
        time.sleep(0.1)
    raise AssertionError(f"the figures did not follow {name}: {slider.text!r}")


def _accept_kernel(browser) -> None:
    """Take the kernel that the notebook names, where JupyterLab asks."""
    time.sleep(2)  # the dialog comes after the page says that it is idle
    while browser.execute_script(f"return {DIALOG} !== null"):
        browser.execute_script(f"{DIALOG}.click()")
        time.sleep(1)


def _run_all(browser) -> None:
    """Run all cells from the menu, as a person does."""
    from selenium.webdriver.common.by import By

    menu = next(
        e for e in browser.find_elements(By.CSS_SELECTOR, ".lm-MenuBar-item") if e.text.strip() == "Run"
    )
    menu.click()
    _until(browser, "document.querySelector('.lm-Menu [data-command=\"runmenu:run-all\"]') !== null", 10)
    browser.find_element(By.CSS_SELECTOR, '.lm-Menu [data-command="runmenu:run-all"]').click()


def _code_cells() -> int:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return sum(cell["cell_type"] == "code" for cell in cells)


def _executed() -> str:
    """JavaScript for the number of cells that have an execution count."""
    prompts = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
    return f"{prompts}.filter(e => /^\\[\\d+\\]:/.test(e.innerText.trim())).length"


def _soon(browser, condition: str, seconds: float) -> bool:
    """Return whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if browser.execute_script(f"return {condition}"):
            return True
        time.sleep(0.3)
    return False


def _until(browser, condition: str, seconds: float) -> None:
    """Wait for a condition, and show the page where it does not come true."""
    if not _soon(browser, condition, seconds):
        said = browser.execute_script("return document.body.innerText")
        raise AssertionError(f"after {seconds:.0f} s still not: {condition}\n{said[-3000:]}")
