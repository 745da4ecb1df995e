"""Our own small services, and the only package that knows grpclib and betterproto: values in, values out."""
