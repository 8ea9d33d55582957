"""What the distributions have in common, taken from the repository's pyproject.toml: one place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = "onnxruntime"
# Of each distribution: extras of the repository that it needs, and those that it offers.
NEEDS = {
    "fedrap-coordinator": "coordinator",
    "fedrap-simulation": "simulation",
    "fedrap-aggregator": None,  # what a device needs is enough
}
OFFERS = {
    "fedrap": ("torch", "keyring"),
    "fedrap-light": ("torch", "keyring"),
    "fedrap-coordinator": ("postgres", "privacy", "tracing"),
    "fedrap-simulation": ("ray", "science"),
    "fedrap-aggregator": (),
}


class SharedMetadata(MetadataHookInterface):
    """Fills in version, licence, dependencies and extras."""

    def update(self, metadata: dict[str, Any]) -> None:
        whole = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        extras, name = whole["optional-dependencies"], metadata["name"]
        for field in ("version", "requires-python", "license", "authors", "keywords"):
            metadata[field] = whole[field]
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": (ROOT / "README.md").read_text("utf-8"),
        }
        base = [one for one in whole["dependencies"] if not one.startswith(RUNTIME)]
        runtime = [one for one in whole["dependencies"] if one.startswith(RUNTIME)]
        version = whole["version"]
        if name == "fedrap-light":
            needed = base
        elif name == "fedrap":
            needed = [f"fedrap-light=={version}", *runtime]
        else:
            extra = NEEDS[name]
            more = [] if extra is None else _plain(extras[extra])
            needed = [f"fedrap-light=={version}", *more]
            if name == "fedrap-simulation":
                needed.append(f"fedrap-coordinator=={version}")
        metadata["dependencies"] = needed
        metadata["optional-dependencies"] = {
            extra: _plain(extras[extra], all_extras=extras) for extra in OFFERS[name]
        }


def _plain(needed: list[str], all_extras: dict[str, list[str]] | None = None) -> list[str]:
    """Without the repository's own name; of its extras only torch is no distribution."""
    found = []
    for one in needed:
        if not one.startswith("fedrap["):
            found.append(one)
        elif all_extras is not None and "torch" in one:
            found += all_extras["torch"]
    return found
