"""Makes calls with a client that openapi-python-client has generated. Reads the calls as JSON, writes what came back."""

import datetime
import enum
import importlib
import inspect
import json
import re
import sys
import typing


def snake(name):
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^A-Za-z0-9]+", "_", parted).lower()


def typed(annotation, value):
    """A value of JSON as the client wants it: a model, a time, a word of a list."""
    for one in typing.get_args(annotation) or (annotation,):
        if hasattr(one, "from_dict"):
            return one.from_dict(value)
        if one is datetime.datetime:
            return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        if inspect.isclass(one) and issubclass(one, enum.Enum):
            return one(value)
    return value


def call(package, base, wanted):
    module = importlib.import_module(f"{package}.api.{snake(wanted['tag'])}.{snake(wanted['operationId'])}")
    client = importlib.import_module(package).AuthenticatedClient(
        base_url=base, token=wanted["token"], raise_on_unexpected_status=True
    )
    taken = inspect.signature(module.sync_detailed, eval_str=True).parameters
    given = {snake(name): value for name, value in wanted["parameters"].items()}
    if wanted.get("body") is not None:
        given["body"] = wanted["body"]
    arguments = {name: typed(taken[name].annotation, value) for name, value in given.items()}
    answer = module.sync_detailed(client=client, **arguments)
    status = int(answer.status_code)
    if status >= 400:
        raise RuntimeError(f"{wanted['operationId']}: {answer.content.decode()}")
    return {"operationId": wanted["operationId"], "status": status, "hasBody": answer.parsed is not None}


def main():
    asked = json.load(sys.stdin)
    sys.path.insert(0, asked["folder"])
    results = [call(asked["package"], asked["base"], wanted) for wanted in asked["calls"]]
    json.dump(results, sys.stdout)


main()
