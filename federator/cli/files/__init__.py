"""Commands that read manifests: place, convert, crd."""
