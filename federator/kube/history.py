"""Whether a server still tells the history that we know: it does not after it was restored from a backup.

Called by reflectors. Versions alone do not show it for long: a restored server counts on, and soon above what we know.
Nothing here waits but for the answer it reads, and nothing is written.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from federator.kube import decode
from federator.kube.store import Key, Store, Version, version_number


async def newest(pages: AsyncGenerator[decode.Page, None]) -> int:
    """The version of a list by its first page; -1 where it has none. Raises ApiErrors."""
    async with contextlib.aclosing(pages):
        async for page in pages:
            return version_number(page.metadata.resourceVersion)
    return -1


def is_rewritten(store: Store[Any], rows: Mapping[Key, tuple[Version, Any]]) -> bool:
    """Whether a whole list that is not older than the store shows some object as older than the store knows it. In one
    history that cannot be."""
    for key, (found, _) in rows.items():
        known = store.version(key)
        if known is not None and known.uid == found.uid and 0 <= found.number < known.number:
            return True
    return False
