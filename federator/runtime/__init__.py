"""What runs inside the pods of workloads. It starts with every pod, so it imports little: the
standard library and nothing of the federation but this folder."""
