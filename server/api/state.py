"""What the model does for requests that do not say: drafting, and thinking."""

from models.messages import TemplateError
from server.engine import Engine
from server.served import Model
from server.settings import Settings
from tools.laguna import thinking_open


def speculation(engine: Engine, settings: Settings) -> dict[str, str | None]:
    """Whether it drafts, and why not, where that is not what was set."""
    if engine.health.state != "ready":
        return {"mode": settings.speculation, "off": None}
    off = engine.model.speculation_off
    if off is None and settings.speculation == "off":
        off = "turned off by the settings"
    return {"mode": settings.speculation if off is None else "off", "off": off}


def thinks(model: Model) -> bool | None:
    """Whether it thinks; None where the template shows no greeting."""
    greeting = [{"role": "user", "content": "Hello"}]
    try:
        return thinking_open(model.tokenizer.render_marked(greeting, None, **model.template_kwargs).marked)
    except TemplateError:
        return None
