"""Which resources are served: native kinds and CRDs."""
