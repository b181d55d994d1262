"""Health and readiness, for whoever watches over the server."""

from typing import Any

from fastapi import APIRouter, Response

from models.progress import Progress
from server.api.state import speculation
from server.api.wire import Json
from server.engine import Engine
from server.settings import Settings


def routes(engine: Engine, settings: Settings) -> APIRouter:
    """`/health` is 503 when waiting is not known to help; `/ready` whenever a request would be refused."""
    router = APIRouter()

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    async def health() -> Response:
        """How the engine is."""
        now = engine.health
        return Json(
            {
                "status": "ok" if now.state == "ready" else now.state,
                "reason": now.reason,
                "running": now.running,
                "waiting": now.waiting,
                "parked": now.parked,
                "last_step_age_seconds": now.step_age,
                "step_under_way_seconds": now.step_seconds,
                "loading": None if now.loading is None else _progress(now.loading),
                "speculation": speculation(engine, settings),
            },
            status_code=503 if now.state in ("hung", "dead", "stopped") else 200,
        )

    @router.head("/ready", include_in_schema=False)
    @router.get("/ready")
    async def ready() -> dict[str, Any]:
        """Whether a request would be taken; a refusal says why not."""
        return {"status": "ready", "model": engine.model.id}

    return router


def _progress(step: Progress) -> dict[str, Any]:
    """What is being fetched or loaded, and how much of it is there."""
    counted = {} if step.phase == "warm-up" else {"done_bytes": step.done, "total_bytes": step.total}
    return {"phase": step.phase, "what": step.what, "fraction": round(step.fraction, 4)} | counted
