"""The domain of gpu-fractioning, and the kit that its services are built from."""
