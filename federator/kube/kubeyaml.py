"""YAML with the scalars of kubectl, for texts that are read and written whole.

Texts from outside the process that need bounds are read by `api/decoding.py` instead.
"""

import re
from typing import Any

import yaml

from federator.model.kubernetes import scalars

_PLAIN = "!plain"
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class Loader(_Loader):  # type: ignore[misc]
    """Scalars without quotes mean what they mean to Kubernetes; merge keys and aliases work."""


class Dumper(_Dumper):  # type: ignore[misc]
    """Puts every text in quotes that kubectl, or a reader of YAML 1.1, takes for something else."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = None if scalars.resolve(text) == text else "'"
        node: yaml.ScalarNode = self.represent_scalar(_TEXT, text, style=style)
        return node


Loader.yaml_implicit_resolvers = {
    "<": [(_MERGE, re.compile(r"^<<$"))],
    None: [(_PLAIN, re.compile(""))],
}
Loader.add_constructor(
    _PLAIN, lambda loader, node: scalars.resolve(str(loader.construct_scalar(node)))
)
Dumper.add_representer(str, Dumper.represent_text)
