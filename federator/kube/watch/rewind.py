"""Whether a server still tells the history that we know: it does not after it was restored from a
backup.

Called by reflectors. Versions alone do not show it for long: a restored server counts on, and soon
above what we know. Nothing here waits but for the answer it reads, and nothing is written.
"""

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from federator.kube.store import Listing, Store, version_number
from federator.kube.wire import decode


async def newest(pages: AsyncGenerator[decode.Page, None]) -> int:
    """The version of a list by its first page; -1 where it has none. Raises ApiErrors."""
    async with contextlib.aclosing(pages):
        async for page in pages:
            return version_number(page.metadata.resourceVersion)
    return -1


def is_rewritten(store: Store[Any], rows: Listing[Any], refused: int = -1) -> bool:
    """Whether a whole list that is not older than the store shows what cannot be in one history:
    some object older than the store knows it.

    `refused`: the version of a list that was refused just before because it was older than the
    store; -1 for none. What was written since that one must then be known as it is, or be newer
    than all that the store knows: a restored server whose objects have been brought up to date
    again meanwhile shows nothing that is older.
    """
    newest = version_number(store.resource_version)
    for key in rows:
        found, known = rows.get(key)[0], store.version(key)
        if known is not None and known.uid == found.uid and 0 <= found.number < known.number:
            return True
        if 0 <= refused < found.number <= newest and (
            known is None or known.number != found.number
        ):
            return True
    return False
