"""The OpenAPI document: what the routes, which read their bodies themselves, take and answer."""
