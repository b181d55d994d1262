"""How the settings want a pair to be loaded."""

from models.loading import Loading
from server.settings import Settings


def loading(settings: Settings) -> Loading:
    """The choices in the settings that a checkpoint is loaded with."""
    return Loading(
        attention_factor=settings.attention_factor,
        speculator_bits=4 if settings.quantize_speculator == "4" else None,
        fp8_bits=8 if settings.quantize_fp8 == "8" else None,
        kv_bits=None if settings.kv_bits == "off" else 8 if settings.kv_bits == "8" else 4,
        revision=settings.revision,
        memory_limit=settings.memory_limit,
        calibration=settings.calibration,
    )
