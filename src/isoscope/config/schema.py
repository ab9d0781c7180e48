"""The JSON schema of params.yaml and its overlays."""

from typing import Any

from pydantic import create_model

from isoscope.config.project import Cell, Root


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of params.yaml and every overlay, for completion in editors.

    It requires no key, because an overlay may complete params.yaml; the loader checks the merged tree.
    """
    whole = create_model("Params", __base__=(Root, Cell))
    schema = whole.model_json_schema()
    _drop_required(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "isoscope parameters"}


def _drop_required(node: Any) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("required"), list):
            del node["required"]
        for value in node.values():
            _drop_required(value)
    elif isinstance(node, list):
        for value in node:
            _drop_required(value)
