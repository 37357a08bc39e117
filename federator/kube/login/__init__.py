"""How an API server is reached and trusted: kubeconfigs, their users, TLS."""
