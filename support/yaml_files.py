"""YAML and JSON files that a user writes: names stand once, and aliases do not stand for more than memory holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from support.errors import InputError
from support.text import name_of, parse_json, read_text

_MOST_REPEATED = 1_000_000  # nodes that the aliases of a YAML file stand for together


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a name may be given only once, and whose aliases do not stand for more than memory holds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._size: dict[yaml.Node, int] = {}  # nodes in each, those that aliases repeat counted again
        self._composed = self._repeated = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Count, as aliases of aliases stand for exponentially many nodes (also where `<<` merges them)."""
        is_alias, before = self.check_event(yaml.AliasEvent), self._composed
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if is_alias:
            repeated = self._size.get(node, 0)  # 0: of one around it
            self._composed += repeated
            self._repeated += repeated
            if self._repeated > _MOST_REPEATED:
                raise ValueError(f"its aliases (*name) stand for more than {_MOST_REPEATED:,} values")
        else:
            self._composed += 1
            self._size[node] = self._composed - before
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Refuse a name that is given twice, before `<<` adds those that it merges."""
        node = super().compose_mapping_node(anchor)
        require_unique_keys(
            name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode) and name.value != "<<"
        )
        return node


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of JSON, in which too a name may be given only once."""
    require_unique_keys(name for name, _ in pairs)
    return dict(pairs)


def require_unique_keys(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name_of(name)} is given twice")
        seen.add(name)


def read_yaml(path: Path, what: str) -> Any:
    """The content of a `.json` or YAML file, in which a name may stand once; `what` names it in errors. Raises
    InputError.
    """
    text = read_text(path, what)
    try:
        if path.suffix == ".json":
            return parse_json(text, object_pairs_hook=_unique)
        return yaml.load(text, _Loader)  # a SafeLoader
    except (ValueError, TypeError, AttributeError, yaml.YAMLError, RecursionError) as error:
        kind = "json" if path.suffix == ".json" else "yaml"
        raise InputError(f"{path} is not valid {kind}: {' '.join(str(error).split())}") from None
