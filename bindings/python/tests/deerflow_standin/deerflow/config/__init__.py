# SPDX-License-Identifier: Apache-2.0
"""The configuration: an object with the section `sandbox`, whose keys are attributes."""

from __future__ import annotations

from typing import Any


class SandboxConfig:
    """Declared keys with their defaults, and whatever else is written."""

    DEFAULTS: dict[str, Any] = {  # noqa: RUF012
        "allow_host_bash": False,
        "image": None,
        "port": None,
        "replicas": None,
        "overflow_policy": "wait",
        "acquire_timeout": 30,
        "burst_limit": 0,
        "container_prefix": None,
        "idle_timeout": None,
        "health_check_skip_seconds": None,
        "ownership": None,
        "mounts": [],
        "thread_data_mounts": None,
        "environment": {},
        "bash_output_max_chars": 20000,
        "read_file_output_max_chars": 50000,
        "ls_output_max_chars": 20000,
        "bash_command_timeout": 600,
        "provisioner_api_key": None,
    }

    def __init__(self, *, use: str, **written: Any) -> None:
        self._written = {"use": use, **written}
        for key, value in {**self.DEFAULTS, **self._written}.items():
            setattr(self, key, value)

    def model_dump(self, *, mode: str = "python", exclude_unset: bool = False) -> dict[str, Any]:
        return dict(self._written) if exclude_unset else {**self.DEFAULTS, **self._written}


class AppConfig:
    def __init__(self, sandbox: SandboxConfig) -> None:
        self.sandbox = sandbox


_current: AppConfig | None = None


def set_app_config(config: AppConfig) -> None:
    global _current
    _current = config


def get_app_config() -> AppConfig:
    if _current is None:
        raise FileNotFoundError("there is no config.yaml")
    return _current
