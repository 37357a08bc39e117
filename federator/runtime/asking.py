"""Asks one probe at an address of the pod, as a kubelet does."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from federator.runtime import grpchealth
from federator.runtime.probes import Probe

HEAD_MAX: Final = 1 << 14
HOST: Final = "127.0.0.1"


async def ask(probe: Probe, host: str = HOST) -> str:
    """Asks once. Returns why it failed, "" for success."""
    try:
        async with asyncio.timeout(probe.timeout_s):
            if "httpGet" in probe.how:
                return await _http(probe.how["httpGet"], host)
            if "tcpSocket" in probe.how:
                _, writer = await asyncio.open_connection(host, int(probe.how["tcpSocket"]["port"]))
                writer.close()
            if "grpc" in probe.how:
                how = probe.how["grpc"]
                return await grpchealth.check(host, int(how["port"]), how.get("service") or "")
            return ""
    except TimeoutError:
        return f"its probe was not answered within {probe.timeout_s:g} s"
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as bad:
        return f"its probe failed: {bad}"


async def _http(how: Mapping[str, Any], address: str) -> str:
    """As a kubelet: 2xx and 3xx are well, and certificates are not looked at."""
    context = ssl._create_unverified_context() if how.get("scheme") == "HTTPS" else None
    port = int(how["port"])
    reader, writer = await asyncio.open_connection(address, port, ssl=context, limit=HEAD_MAX)
    try:
        given = {str(entry["name"]): str(entry["value"]) for entry in how.get("httpHeaders") or ()}
        host = f"[{address}]" if ":" in address else address
        fields = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/federator-guard", **given}
        lines = [f"GET {how.get('path') or '/'} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        writer.write(("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode("latin-1"))
        await writer.drain()
        code = int((await reader.readuntil(b"\r\n")).split(b" ")[1])
        return "" if 200 <= code < 400 else f"its probe was answered with {code}"
    except IndexError:
        return "its probe was answered with no HTTP"
    finally:
        writer.close()
