"""The pages as files: nothing inline, nothing from elsewhere, and a policy that says so."""

import json
import re

import httpx2
import pytest

from server.api.pages import FOLDER, TYPES
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, stand

PAGES = ("index.html", "status.html")
FILES = sorted(path.name for path in FOLDER.iterdir())


@pytest.fixture(scope="module")
def served() -> object:
    with stand(ScriptPair(says("a"))) as running:
        yield running


def text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


@pytest.mark.parametrize("path", ["/", "/status", *(f"/static/{name}" for name in FILES)])
def test_every_file_is_served_with_its_type_and_a_strict_policy(served: Stand, path: str) -> None:
    told = served.http.get(path)
    assert told.status_code == 200
    assert told.headers["content-type"] in TYPES.values()
    policy = told.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert told.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/static/nothing.js", "/static/..%2Fapp.py", "/static/%2e%2e/app.py", "/static/"])
def test_nothing_else_is_served(served: Stand, path: str) -> None:
    assert served.http.get(path).status_code == 404


def test_pages_open_without_a_key_and_nothing_else_does() -> None:
    with stand(ScriptPair(says("a")), api_key=["secret"]) as locked:
        bare = httpx2.Client(base_url=f"http://127.0.0.1:{locked.port}")
        assert {bare.get(path).status_code for path in ("/", "/status", "/static/app.js")} == {200}
        assert {bare.get(path).status_code for path in ("/v1/models", "/static", "/x/static/app.js")} == {401}
        bare.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_inline_code_and_loads_only_files_that_are_there(name: str) -> None:
    page = text(name)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    loaded = re.findall(r'(?:src|href)="static/([^"]+)"', page)
    assert loaded
    assert set(loaded) <= set(FILES)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".js")])
def test_code_is_short_imports_what_is_there_and_never_makes_markup_of_text(name: str) -> None:
    code = text(name)
    assert len(code.splitlines()) <= 320
    assert set(re.findall(r'from "\./([^"]+)"', code)) <= set(FILES)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", code)
    assert "http://" not in code.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in code


def test_the_dashboard_asks_for_metrics_that_there_are(served: Stand) -> None:
    served.post(max_tokens=1)
    known = set(re.findall(r"^(laguna_\w+?)(?:\{.*\})? ", served.http.get("/metrics").text, re.MULTILINE))
    panels = json.loads(text("grafana.json"))["panels"]
    asked = {name for panel in panels for part in panel["targets"] for name in re.findall(r"laguna_\w+", part["expr"])}
    assert len(asked) > 10
    assert asked <= known


def test_the_panel_reads_metrics_that_there_are(served: Stand) -> None:
    served.post(max_tokens=1)
    known = set(re.findall(r"^laguna_(\w+?)(?:\{.*\})? ", served.http.get("/metrics").text, re.MULTILINE))
    code = text("status.js")
    asked = set(re.findall(r'now\.(?:of|rows)\("(\w+)"\)', code)) | {
        f"{name}_{part}" for name in re.findall(r'mean\(now, "(\w+)"\)', code) for part in ("sum", "count")
    }
    assert len(asked) > 10
    assert asked <= known


def test_the_pictures_in_the_readme_are_there_and_small() -> None:
    root = FOLDER.parents[1]
    named = set(re.findall(r"\((tests/playground/pictures/[^)]+)\)", (root / "README.md").read_text("utf-8")))
    assert {str(path.relative_to(root)) for path in (root / "tests/playground/pictures").iterdir()} == named
    assert all((root / name).stat().st_size < 100_000 for name in named)
