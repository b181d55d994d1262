"""Thinking that a client keeps for us without reading it, in the field where its API has something opaque."""

import base64
import binascii

SHOWN = "laguna"
"""Of a block whose text is there. Clients refuse a block without a signature."""
_SEALED = "laguna-thought:"


def sealed(thinking: str) -> str:
    """A signature from which `opened` reads the text of a block that is sent empty."""
    return _SEALED + base64.b64encode(thinking.encode("utf-8", "replace")).decode("ascii")


def opened(signature: str) -> str:
    """The text in a signature that `sealed` made; empty for any other."""
    if not signature.startswith(_SEALED):
        return ""
    try:
        return base64.b64decode(signature.removeprefix(_SEALED), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
