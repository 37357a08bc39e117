"""Where submissions run: one folder for the port that `submitting` calls and what serves it.

`federation.Federation` is the only platform: objects on the host, verdicts of the leading hub.
"""
