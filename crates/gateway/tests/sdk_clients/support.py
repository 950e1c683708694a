"""What the Python scripts have in common."""

import contextlib
import os
import sys
import traceback

import pydantic

GATEWAY = os.environ["GATEWAY"]
GATEWAY_WITH_KEY = os.environ["GATEWAY_WITH_KEY"]
KEY = os.environ["GATEWAY_KEY"]
MODEL = os.environ["GATEWAY_MODEL"]

# Nothing in the environment may change what a client does.
for name in list(os.environ):
    if name.startswith(("OPENAI_", "ANTHROPIC_", "LANGCHAIN_", "LANGSMITH_")) or name.lower().endswith("_proxy"):
        del os.environ[name]

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NOTHING = {"type": "object", "properties": {}}

# One red dot.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"

ROUNDS = ["First.", "Second.", "Results: value of a | value of b."]
# The result of the failed call is the message of its error.
PARALLEL = "Results: value of a | it is broken."
PICTURE = "Results: a dot [image]."


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


# The response to `json` and `rounds-json`.
PARIS = Weather(city="Paris", degrees=20)


def results_of_client():
    """Returns the results of the client's tools by name."""
    return {"get_weather": "sunny", "get_time": "noon"}


def equal(found, expected, what=""):
    if found != expected:
        raise AssertionError(f"{what}\n  found:    {found!r}\n  expected: {expected!r}")


def contains(text, *fragments):
    for fragment in fragments:
        if fragment not in text:
            raise AssertionError(f"no {fragment!r} in {text!r}")


def raises(kind, action):
    """Returns the error of this class, and not of a subclass, that an action raises."""
    try:
        action()
    except Exception as error:
        if type(error) is kind:
            return error
        raise AssertionError(f"expected {kind.__name__}, not {type(error).__name__}: {error}") from error
    raise AssertionError(f"expected {kind.__name__}, but nothing was raised")


@contextlib.contextmanager
def case(name):
    """Adds the name of a case to the error."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{name}: {error}") from error


def run(checks):
    """Runs all functions whose name begins with `check_`, and reports each one that fails."""
    selected = sys.argv[1:]
    failed = 0
    for name, check in list(checks.items()):
        if not name.startswith("check_") or (selected and not any(part in name for part in selected)):
            continue
        try:
            check()
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(limit=4, file=sys.stdout)
    sys.exit(1 if failed else 0)
