"""PinterestService: a service of interchangeable replicas."""
