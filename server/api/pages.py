"""The playground at `/` and the panel at `/status`: files of the package, which load nothing from elsewhere."""

from pathlib import Path
from types import MappingProxyType

from fastapi import APIRouter, Response

from server.errors import UnknownRoute

FOLDER = Path(__file__).parents[1] / "static"
TYPES = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".json": "application/json",
        ".svg": "image/svg+xml",
    }
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        # A newer version of the server must not run with an older one's page.
        "cache-control": "no-cache",
    }
)


def routes() -> APIRouter:
    """The two pages and what they load. They hold nothing secret, so no key is asked for."""
    router = APIRouter(include_in_schema=False)
    files = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in TYPES}

    def file(name: str) -> Response:
        return Response(files[name], media_type=TYPES[Path(name).suffix], headers=dict(HEADERS))

    @router.head("/")
    @router.get("/")
    async def playground() -> Response:
        """The playground."""
        return file("index.html")

    @router.head("/status")
    @router.get("/status")
    async def status() -> Response:
        """The panel."""
        return file("status.html")

    @router.head("/static/{name}")
    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        """A file that one of them loads."""
        if name not in files:
            raise UnknownRoute("There is no such file.")
        return file(name)

    return router
