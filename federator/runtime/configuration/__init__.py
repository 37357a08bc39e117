"""The configuration of a pod: artifacts by digest, on disk before the application starts."""
