"""The report in a real browser: quiet, asks nobody, fits a phone, and can be tabbed through."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from embedexp.sweeps.report import write
from embedexp.sweeps.table import table
from tests.unit.sweeps.report_help import finish, planned

HOSTILE = "<script>document.title='owned'</script>\"'></style><b>$x"
PHONE, DESKTOP = (390, 844), (1280, 900)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with every section, one hostile row, long words, and cells that are missing."""
    folder = tmp_path_factory.mktemp("report")
    rows = {
        "6 layers": ["routing.placement=every_other"],
        HOSTILE: ["routing.placement=every"],
        "w" * 90: ["routing.placement=every", "loss.temperature=0.02"],
    }
    figures = {"6 layers": {"batch 16": 44.13}}
    found = planned(
        folder,
        rows=rows,
        seeds=[0, 1],
        title=f"Experts {HOSTILE}",
        published={"source": ["Table 7"], "values": figures},
    )
    for position, run in enumerate(found.runs[:-1]):
        finish(run, level=0.3 + 0.01 * position, analyses=position % 2 == 0)
    write(found, table(found), folder / "page.html")
    return folder / "page.html"


def shown(browser, page, size, scheme="light"):
    """Open the page at a size, as a phone or screen would."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size is PHONE},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(page.as_uri())
    return browser


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_it_is_quiet_and_asks_nobody(browser, page, size):
    shown(browser, page, size)
    assert browser.get_log("browser") == []
    asked = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert page.as_uri() in asked
    assert [url for url in asked if url != page.as_uri() and not url.startswith("data:")] == []


def test_texts_from_files_are_shown_and_nothing_else(browser, page):
    shown(browser, page, DESKTOP)
    assert browser.title == f"Experts {HOSTILE}"
    assert browser.find_element("tag name", "h1").text == f"Experts {HOSTILE}"
    assert browser.find_elements("tag name", "script") == []
    assert browser.find_elements("css selector", "style") != []
    names = [one.text for one in browser.find_elements("css selector", "#table tbody th")]
    assert HOSTILE in names


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_only_tables_scroll_sideways(browser, page, size):
    shown(browser, page, size)
    for one in browser.find_elements("tag name", "details"):
        browser.execute_script("arguments[0].open = true", one)
    inside, outside = browser.execute_script(
        "const d = document.documentElement; return [d.scrollWidth, d.clientWidth]"
    )
    assert size[0] - 20 <= outside <= size[0]  # less the scroll bar of a desktop
    assert inside <= outside
    small = browser.execute_script(
        "return [...document.querySelectorAll('svg text')].filter(t => t.textContent.trim() && "
        "t.getClientRects().length && parseFloat(getComputedStyle(t).fontSize) * "
        "Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b) < 8.5).map(t => t.textContent)"
    )
    assert small == []


def test_the_keyboard_reaches_every_link_in_order(browser, page):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    shown(browser, page, DESKTOP)
    links = browser.find_elements("css selector", "a[href]")
    seen = []
    for _ in range(4 * len(links)):
        browser.switch_to.active_element.send_keys(keys.TAB)
        found = browser.switch_to.active_element
        if found.tag_name == "body":
            break
        seen.append(found)
    assert [one for one in seen if one.tag_name == "a"] == links
    assert links[0].get_property("textContent") == "Skip to the table"
    # Tables that scroll must be reachable without a mouse.
    regions = [one for one in seen if one.get_attribute("role") == "region"]
    assert len(regions) >= 3


def test_the_skip_link_leads_to_the_main_part(browser, page):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    shown(browser, page, DESKTOP)
    browser.switch_to.active_element.send_keys(keys.TAB)
    browser.switch_to.active_element.send_keys(keys.ENTER)
    assert browser.switch_to.active_element.tag_name == "main"


def test_a_screen_reader_finds_parts_tables_and_pictures_by_name(browser, page):
    shown(browser, page, DESKTOP)
    landmarks = {"banner", "navigation", "main", "contentinfo"}
    # Chromium makes the tree beside the page: it may not have come to the end yet.
    for _ in range(50):
        tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree
                 if not node["ignored"]]  # fmt: skip
        kinds = {role for role, _ in roles}
        if landmarks <= kinds:
            break
        time.sleep(0.2)
    assert landmarks <= kinds
    assert {"rowheader", "columnheader", "table"} <= kinds
    for role in ("image", "img", "table", "link", "region"):
        assert all(name.strip() for kind, name in roles if kind == role), role
    pictures = [name for kind, name in roles if kind in ("image", "img")]
    assert any(name.startswith("Loss") for name in pictures)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_lines_stand_out_from_the_page(browser, page, scheme):
    shown(browser, page, DESKTOP, scheme)
    names = ["paper", "ink", "soft", "link", "good", "bad", "open", "lift"]
    names += [f"series-{n}" for n in range(8)]
    found = browser.execute_script(
        "const s = getComputedStyle(document.documentElement);"
        "return arguments[0].map(n => s.getPropertyValue('--' + n).trim())",
        names,
    )
    colours = dict(zip(names, found, strict=True))
    # WCAG 2.2: 4.5 for words (1.4.3), 3 for graphics (1.4.11).
    for name in ("ink", "soft", "link", "good", "bad", "open"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours[name], colours["lift"]) >= 4.5, name
    for n in range(8):
        assert contrast(colours[f"series-{n}"], colours["paper"]) >= 3, n
    dark = luminance(colours["paper"]) < 0.5
    assert dark == (scheme == "dark")


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    channels = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_links_lead_to_files_that_are_there(browser, page):
    shown(browser, page, DESKTOP)
    hrefs = [one.get_attribute("href") for one in browser.find_elements("css selector", "#runs a")]
    paths = [Path(unquote(urlsplit(href).path)) for href in hrefs]
    assert len(paths) > 10
    assert all(path.exists() for path in paths)
