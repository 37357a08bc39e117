"""The signer of one cluster: it certifies the keys of pods for the identity of their service
account (`federator signer`)."""
