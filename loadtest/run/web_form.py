"""Locust's web form: what is wrong with it is said in the form, before anything starts."""

from __future__ import annotations

import socket

from flask import Response, jsonify, request
from locust.env import Environment
from locust.web import WebUI

from loadtest.errors import LoadTestError

from .conductor import Conductor


def require_web_port(web_ui: WebUI) -> None:
    """Raises LoadTestError when the web UI cannot listen where it is to: Locust says so too late, and ends with 0."""
    where = f"{web_ui.host}:{web_ui.port}" if web_ui.host else f"port {web_ui.port}"
    try:
        with socket.socket(socket.AF_INET6 if ":" in web_ui.host else socket.AF_INET) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((web_ui.host, web_ui.port))
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise LoadTestError(
            f'the web UI cannot have "{where}" ({reason}): give another with --web-port or --web-host'
        ) from None


def check_form(environment: Environment, conductor: Conductor) -> None:
    """Answer the form's "start" with what is wrong, in place of Locust, which would start whatever comes."""
    web_ui = environment.web_ui
    assert web_ui is not None
    assert web_ui.app is not None

    @web_ui.app.before_request
    def check() -> Response | None:
        if request.endpoint != "locust.swarm":
            return None
        if conductor.running is not None:
            return _refuse(environment, "a run is on: stop it before you start another")
        try:
            conductor.require_crew()
            conductor.check({**vars(environment.parsed_options), **_form_values()})
        except LoadTestError as error:
            return _refuse(environment, str(error))
        return None


def _form_values() -> dict[str, str]:
    values = dict(request.form.items())
    if "user_count" in values:
        values["num_users"] = values.pop("user_count")
    if not values.get("run_time"):
        # Locust keeps what the command line said.
        values.pop("run_time", None)
    return values


def _refuse(environment: Environment, message: str) -> Response:
    return jsonify({"success": False, "message": message, "host": environment.host})
