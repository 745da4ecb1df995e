"""
The GpuFractioningConfig: its types, which are the source of the CRD, and how it is read and written.

    identity        what it is called
    spec            what a user asks for
    config          the whole object, how it is read, and what is said of one that is not usable
    status          conditions
    crd             the CustomResourceDefinition
    fields          declares a field of a type: name, kind, description
    kinds           what a value may be: for the API server as a schema, for us as a check
    forms           the forms of texts: durations, addresses, paths, names
    labels          the node selector
    sections        objects whose fields are declared
    volumes         a pod's volumes and mounts
    coreshapes      their fields, as Kubernetes publishes them
    problems        what is wrong with a value

What the API server accepts by the schema, `read` accepts, and the other way round: an object that is stored is usable.
"""

from fractioning_core.resource.config import Config, InvalidResource, read, write_status
from fractioning_core.resource.identity import API_VERSION, GROUP, KIND, NAME, NAMESPACE_ANNOTATION, PLURAL, VERSION
from fractioning_core.resource.problems import Problem
from fractioning_core.resource.sections import write
from fractioning_core.resource.spec import (
    DEFAULT_METRIC_NAMES,
    FractioningAgent,
    MetricNames,
    MetricsAgent,
    MpsDaemon,
    Spec,
    Toleration,
)
from fractioning_core.resource.status import Condition

__all__ = [
    "API_VERSION",
    "DEFAULT_METRIC_NAMES",
    "GROUP",
    "KIND",
    "NAME",
    "NAMESPACE_ANNOTATION",
    "PLURAL",
    "VERSION",
    "Condition",
    "Config",
    "FractioningAgent",
    "InvalidResource",
    "MetricNames",
    "MetricsAgent",
    "MpsDaemon",
    "Problem",
    "Spec",
    "Toleration",
    "read",
    "write",
    "write_status",
]
