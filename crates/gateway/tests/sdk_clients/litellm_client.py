"""LiteLLM as a client of the three APIs."""

import warnings

warnings.filterwarnings("ignore")

import litellm
from support import *

litellm.suppress_debug_info = True

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "get_time", "description": "Time", "parameters": NOTHING}},
]
TARGETS = {
    f"openai/{MODEL}": f"{GATEWAY}/v1",
    f"anthropic/{MODEL}": GATEWAY,
    f"openai/responses/{MODEL}": f"{GATEWAY}/v1",
}


def complete(model, messages, stream):
    arguments = dict(model=model, messages=messages, tools=TOOLS, api_key="any", api_base=TARGETS[model], num_retries=0)
    if not stream:
        return litellm.completion(**arguments)
    chunks = list(litellm.completion(stream=True, stream_options={"include_usage": True}, **arguments))
    return litellm.stream_chunk_builder(chunks, messages=messages)


def every(check):
    """Runs a check with all APIs, whole and streamed."""

    def run_all():
        for model in TARGETS:
            for stream in (False, True):
                with case(f"{model}, {'streamed' if stream else 'whole'}"):
                    check(lambda messages: complete(model, messages, stream))

    return run_all


def text(message):
    """Returns the text without the space between rounds, which the APIs show in different ways."""
    return "".join((message.content or "").split("\n\n"))


def converse(ask, question, messages=()):
    """Asks, returns the results of this client's calls, and returns the conversation and the names of the calls."""
    messages = [*messages, {"role": "user", "content": question}]
    called, results = [], results_of_client()
    while True:
        message = ask(messages).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return text(message), called, messages
        for call in message.tool_calls:
            called.append(call.function.name)
            result = results[call.function.name]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


@every
def check_text(ask):
    response = ask([{"role": "user", "content": "say Grüße aus dem Tal"}])
    equal(text(response.choices[0].message), "Grüße aus dem Tal")
    equal((response.usage.prompt_tokens, response.usage.completion_tokens), (10, 5))


@every
def check_tools_of_servers(ask):
    equal(converse(ask, "rounds")[:2], ("".join(ROUNDS), []))


@every
def check_tools_of_client(ask):
    answer, called, messages = converse(ask, "clients")
    equal((answer, called), ("Results: sunny | noon.", ["get_weather", "get_time"]))
    equal(converse(ask, "say end", messages)[0], "end")


@every
def check_tools_of_both(ask):
    answer, called, messages = converse(ask, "mixed")
    equal(called, ["get_weather"])
    contains(answer, "value of a", "value of b", "sunny")
    equal(converse(ask, "ours", messages)[0], "Results: value of a.")


def check_errors():
    for model in TARGETS:
        question = [{"role": "user", "content": "status 429"}]
        contains(raises(litellm.RateLimitError, lambda: complete(model, question, False)).message, "says no")


run(globals())
