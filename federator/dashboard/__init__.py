"""Web pages over the federated view: `federator dashboard`."""
