"""`GET /metrics`, for Prometheus."""

from fastapi import APIRouter, Response

from server.metrics import MEDIA_TYPE, Metrics


def routes(metrics: Metrics) -> APIRouter:
    """The one route."""
    router = APIRouter()

    @router.get("/metrics")
    async def scraped() -> Response:
        """Counters and gauges in Prometheus' text format."""
        return Response(metrics.text(), media_type=MEDIA_TYPE)

    return router
