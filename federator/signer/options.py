"""What an operator may set for the signer. Filled by `settings`; every field says its unit, and why
it is so."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass(frozen=True, slots=True)
class SignerOptions:
    """The signer of pod certificates in a member (`federator signer`)."""

    trust_domain: str = "federator.example"
    """Trust domain of all clusters: the first part of every SPIFFE id."""
    cluster: str = ""
    """Name of this cluster, attested in each certificate as `cluster=NAME`. Empty: not attested."""
    audience: str = "federator-signer"
    """Audience of the tokens of pods. Tokens for the API server do not count here."""
    lifetime_s: Annotated[int, Field(ge=600, le=7_862_400)] = 14_400
    """Lifetime of a certificate. Nothing else revokes one, so it is short. A pod renews after two
    thirds, so the CA may be away for a third."""
    authority: Literal["files", "openbao"] = "files"
    """Where certificates are signed: by an intermediate certificate in a folder (a mounted Secret),
    or by the PKI engine of OpenBao or Vault."""
    authority_directory: str = "/etc/federator-authority"
    """With `files`: folder with tls.crt and tls.key (the intermediate certificate) and ca.crt (the
    roots to trust: the old and the new one during a rotation)."""
    openbao_address: str = "https://openbao.openbao.svc:8200"
    """With `openbao`: its address."""
    openbao_ca_file: str = ""
    """PEM of the authority of that address. Empty: those that the machine trusts."""
    openbao_mount: str = "pki"
    """Mount path of the PKI engine."""
    openbao_role: str = "pods"
    """Role of the PKI engine by which pods are signed."""
    openbao_token_file: str = ""
    """File with a token for it. Empty: the signer logs in with its service account token."""
    openbao_login_role: str = "federator-signer"
    """Role of the Kubernetes auth method, for a login without a token file."""
    openbao_login_mount: str = "kubernetes"
    """Mount path of the Kubernetes auth method."""
    openbao_login_token_file: str = "/var/run/secrets/openbao/token"
    """Service account token with the audience of OpenBao, for that login."""
    signer_name: str = "pinterest.com/identity"
    """Signer name of the PodCertificateRequests and ClusterTrustBundles of Kubernetes 1.37."""
    pod_certificate_requests: bool = True
    """Whether to sign PodCertificateRequests, where the API server has them."""
    requests_a_second: float = 20.0
    """Certificates of one service account a second, on average; more get 429 with Retry-After."""
    burst: Annotated[int, Field(ge=1)] = 500
    """Certificates of one service account at once after a pause: a workload that is rolled out."""
    at_once: Annotated[int, Field(ge=1)] = 32
    """Requests to the authority that run at the same time."""
    waiting: Annotated[int, Field(ge=1)] = 512
    """Requests that wait for their turn; more get 503 with Retry-After."""


def example_left(options: SignerOptions) -> str:
    """What an operator has to set and has left as it was, in words; "" for nothing."""
    if options.trust_domain != SignerOptions().trust_domain:
        return ""
    return (
        f"signer.trust_domain is the example {options.trust_domain!r}; put your trust domain"
        " there, the same in all clusters: pods cannot keep their ids when it changes"
    )
