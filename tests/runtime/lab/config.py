"""
The configuration of a containerd that keeps to its own directory.

Pure: values in, TOML text out. Both versions held read configuration version 3. Every path that has a default
somewhere on the host is set, since a lab must neither meet the host's own containerd nor leave anything behind.
"""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from lab.image import PAUSE


@attrs.frozen
class Layout:
    """
    Where things are below the lab's directory; the names are short because a socket path holds 107 bytes.
    """

    base: Path

    @property
    def config(self) -> Path:
        """
        The configuration file.
        """
        return self.base / "config.toml"

    @property
    def log(self) -> Path:
        """
        What containerd wrote.
        """
        return self.base / "containerd.log"

    @property
    def cri_socket(self) -> Path:
        """
        Where containerd serves CRI.
        """
        return self.base / "cri.sock"

    @property
    def nri_socket(self) -> Path:
        """
        Where containerd takes NRI plugins.
        """
        return self.base / "nri" / "nri.sock"

    @property
    def plugin_dir(self) -> Path:
        """
        Plugins that containerd launches by itself.
        """
        return self.base / "plugins"

    @property
    def cdi_dir(self) -> Path:
        """
        The one directory in which CDI specs are looked for.
        """
        return self.base / "cdi"

    @property
    def state(self) -> Path:
        """
        What containerd knows of what is running.
        """
        return self.base / "state"


@attrs.frozen
class Timeouts:
    """
    How long the runtime waits for a plugin, as Go durations.
    """

    registration: str
    request: str


def render(layout: Layout, timeouts: Timeouts, *, has_validator: bool) -> str:
    """
    Write the configuration file's text.

    Args:
        layout: Where things are.
        timeouts: How long plugins are waited for.
        has_validator: Whether the runtime's own validator is on, which refuses a container whose pod names a plugin
            as required (annotation `required-plugins.noderesource.dev`) that is not registered; 2.3 only.
    """
    validator = "[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  enable = true\n" if has_validator else ""
    base = layout.base
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    return f"""\
version = 3
root = {_string(base / "root")}
state = {_string(layout.state)}

[grpc]
  address = {_string(layout.cri_socket)}

[plugins.'io.containerd.internal.v1.opt']
  path = {_string(base / "opt")}

[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = {_string(layout.nri_socket)}
  plugin_path = {_string(layout.plugin_dir)}
  plugin_config_path = {_string(base / "plugins.conf")}
  plugin_registration_timeout = {_string(timeouts.registration)}
  plugin_request_timeout = {_string(timeouts.request)}

{validator}
[{runtime}]
  # Neither lowering a score nor AppArmor is possible in every place where tests run.
  restrict_oom_score_adj = true
  disable_apparmor = true
  cdi_spec_dirs = [{_string(layout.cdi_dir)}]

  [{runtime}.cni]
    conf_dir = {_string(base / "cni")}

  [{runtime}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [{runtime}.containerd.runtimes.runc.options]
      Root = {_string(base / "runc")}

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = {_string(PAUSE.name)}
"""


def _string(value: object) -> str:
    # A JSON text is a TOML basic string too.
    return json.dumps(str(value))
