"""The import contracts name every module: one that is new cannot stand outside them unseen."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CONTRACTS: dict[str, dict[str, Any]] = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
}
ENGINE_SIDE = {
    "server.bench.answers",
    "server.bench.measure",
    "server.doctor.exactness",
    "server.engine",
    "server.serving",
}


def modules(package: str) -> set[str]:
    """The modules of a package, by their full names."""
    files = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / package).rglob("*.py"))
    return {".".join(file.parts).removesuffix(".__init__") for file in files} - {package}


def within(module: str, names: set[str]) -> bool:
    """Whether it is one of these, or a part of one."""
    return any(module == name or module.startswith(f"{name}.") for name in names)


def test_the_decoding_loop_is_kept_from_every_module_of_models_but_the_contract() -> None:
    contract = CONTRACTS["the decoding loop knows the networks by their contract alone"]
    # The contract's plain numbers lie apart, for whoever reckons without arrays.
    agreed = {"models.contract", "models.slack"}
    kept = set(contract["forbidden_modules"]) | agreed | set(contract["source_modules"])
    assert {name for name in modules("models") if not within(name, kept)} == set()


def test_only_what_stands_on_the_engine_side_may_touch_mlx() -> None:
    (contract,) = (found for name, found in CONTRACTS.items() if "only the engine touches MLX" in name)
    kept = set(contract["source_modules"])
    packages = {"server.bench", "server.doctor"}
    assert {name for name in modules("server") if not within(name, kept)} - packages == ENGINE_SIDE
