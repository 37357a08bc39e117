"""The identity of a pod: a SPIFFE certificate with a key that was made in the pod, and the trust
bundle, as files that are renewed together."""
