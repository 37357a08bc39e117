"""How many examples a property is tried with: few in a usual run, FEDERATOR_EXAMPLES in a long one
(`make soak`).
"""

import os
from typing import Final

from hypothesis import settings

LEAST: Final = int(os.environ.get("FEDERATOR_EXAMPLES", "0"))


def examples(usual: int) -> settings:
    """So many in a usual run."""
    return settings(max_examples=max(usual, LEAST))
