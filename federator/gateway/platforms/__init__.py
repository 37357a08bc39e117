"""Where submissions run: what serves the port `submitting.Platform`.

`federation.Federation` is the only platform: objects on the host, verdicts of the leading hub.
"""
