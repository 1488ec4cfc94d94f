"""The routes of a ranker's mode, and of its comparison with a baseline."""

from __future__ import annotations

import asyncio

import msgspec

from recurrank.serving.experiment import Rollout, RolloutSettings
from recurrank.serving.http import experiment_schema as s
from recurrank.serving.http.routes import Answer, Operation, Request, Route, route
from recurrank.serving.service import Service

PATH = "/v1/rankers/{name}/experiment"

_encode = msgspec.json.Encoder().encode
_read_change = msgspec.json.Decoder(s.RolloutChange).decode


def experiment_routes(service: Service) -> list[Route]:
    """The routes."""

    @route("GET", PATH, "admin", Operation("show_experiment", "experiments", s.ExperimentStatus, (404,)))
    async def show_experiment(request: Request) -> Answer:
        """A ranker's mode, and its comparison with the baseline. Intervals hold at all times: look as often as you like."""
        return await _status(service, request.parameters[0])

    @route("PATCH", PATH, "admin", Operation("change_experiment", "experiments", s.ExperimentStatus, (404,)))
    async def change_experiment(request: Request) -> Answer:
        """Change a ranker's mode, share or brake. Once it is answered every server follows, and a new comparison begins.

        `shadow`: the baseline is returned, with what the ranker would have shown; `share`: a share of the subjects gets the
        ranker, the others get the baseline; `interleave`: everybody gets a list drafted from both; `full`: everybody gets the
        ranker. A change releases a brake that has stopped the ranker; a change already in effect does nothing.
        """
        asked, name = _read_change(request.body), request.parameters[0]
        given = {key: value for key in asked.__struct_fields__ if (value := getattr(asked, key)) is not msgspec.UNSET}

        def change(known: Rollout) -> RolloutSettings:
            return msgspec.structs.replace(known.settings, **given)

        await asyncio.to_thread(service.set_rollout, name, change)
        return await _status(service, name)

    @route("POST", f"{PATH}/release", "admin", Operation("release_brake", "experiments", s.ExperimentStatus, (404,)))
    async def release_brake(request: Request) -> Answer:
        """Release the brake: the ranker goes on in its mode, with a new comparison. Without a stop this changes nothing."""
        await asyncio.to_thread(service.release, request.parameters[0])
        return await _status(service, request.parameters[0])

    return [show_experiment, change_experiment, release_brake]


async def _status(service: Service, name: str) -> Answer:
    return Answer(_encode(await asyncio.to_thread(service.experiment, name)))
