"""Values with a meaning that Kubernetes defines: quantities, selectors, taints, owned fields, Pod
Security."""
