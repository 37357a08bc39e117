"""Where submissions run.

`platform.Platform` is the port, `table.PLATFORMS` has a row for each platform, and
`dispatch.Platforms` asks the right one. `federation.Federation` is the first: objects on the host,
verdicts of the leading hub.
"""
