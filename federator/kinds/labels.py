"""Labels and annotations on native objects and pods that every expander uses, and that the member's caches select
by."""

from typing import Final

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "federator"
CONFIG_HASH_ANNOTATION: Final = "pinterest.com/config-hash"
"""On pods of services: a changed ConfigMap changes it, and so replaces the pods."""
IAM_ROLE_ANNOTATION: Final = "pinterest.com/iam-role"
"""On a ServiceAccount: the role that its pods act as."""
SHARDS_ANNOTATION: Final = "pinterest.com/shards"
"""On a Job of a job set: the shards it runs, such as 100-199; its completion index 0 is the first of them."""
