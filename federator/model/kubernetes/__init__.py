"""Values whose meaning Kubernetes defines: quantities, selectors, taints, owned fields, Pod
Security."""
