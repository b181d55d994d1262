"""The embedded pair: a tiny, really trained Laguna target and DFlash speculator."""
