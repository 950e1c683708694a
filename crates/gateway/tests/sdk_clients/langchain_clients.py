"""LangChain: `ChatOpenAI` over both APIs of OpenAI, and `ChatAnthropic`."""

import asyncio

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from support import *


@tool
def get_weather(city: str) -> str:
    """Returns the weather of a city."""
    return f"sunny in {city}"


@tool
def get_time() -> str:
    """Returns the time."""
    return "noon"


# The connections of the clients belong to one event loop.
loop = asyncio.new_event_loop()

TOOLS = {"get_weather": get_weather, "get_time": get_time}


def models():
    openai = dict(base_url=f"{GATEWAY}/v1", api_key="any", model=MODEL, max_retries=0, stream_usage=True)
    yield "Chat Completions", ChatOpenAI(**openai, use_responses_api=False)
    yield "Responses", ChatOpenAI(**openai, use_responses_api=True)
    yield "Messages", ChatAnthropic(base_url=GATEWAY, api_key="any", model=MODEL, max_retries=0, max_tokens=1000)


def whole(model, messages):
    return model.invoke(messages)


def streamed(model, messages):
    chunks = list(model.stream(messages))
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
    return message


def asynchronous(model, messages):
    return loop.run_until_complete(model.ainvoke(messages))


def every(check):
    """Runs a check with all models in all modes."""

    def run_all():
        for mode in (whole, streamed, asynchronous):
            for name, model in models():
                with case(f"{name}, {mode.__name__}"):
                    check(lambda messages, bound=model.bind_tools(list(TOOLS.values())): mode(bound, messages))

    return run_all


def text(message):
    """Returns the text without the space between rounds, which the APIs show in different ways."""
    return "".join(str(message.text).split("\n\n"))


def converse(ask, question, messages=()):
    """Asks, runs the calls of this client, and returns the conversation and the names of the calls."""
    messages = [*messages, HumanMessage(question)]
    called = []
    while True:
        answer = ask(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return messages, called
        for call in answer.tool_calls:
            called.append(call["name"])
            messages.append(ToolMessage(TOOLS[call["name"]].invoke(call["args"]), tool_call_id=call["id"]))


@every
def check_text(ask):
    answer = ask([HumanMessage("say Grüße aus dem Tal")])
    equal(text(answer), "Grüße aus dem Tal")
    usage = answer.usage_metadata
    equal((usage["input_tokens"], usage["output_tokens"]), (10, 5))


@every
def check_tools_of_servers(ask):
    messages, called = converse(ask, "rounds")
    equal((text(messages[-1]), called), ("".join(ROUNDS), []))
    usage = messages[-1].usage_metadata
    equal((usage["input_tokens"], usage["output_tokens"]), (30, 15))
    messages, called = converse(ask, "parallel", messages)
    equal((text(messages[-1]), called), (PARALLEL, []))


@every
def check_tools_of_client(ask):
    messages, called = converse(ask, "clients")
    equal((text(messages[-1]), called), ("Results: sunny in Paris | noon.", ["get_weather", "get_time"]))
    messages, called = converse(ask, "client", messages)
    equal((text(messages[-1]), called), ("Results: sunny in Paris.", ["get_weather"]))


@every
def check_tools_of_both(ask):
    for scenario in ("mixed", "late"):
        messages, called = converse(ask, scenario)
        equal(called, ["get_weather"])
        contains(text(messages[-1]), "value of a", "value of b", "sunny in Paris")
        messages, called = converse(ask, "ours", messages)
        equal(text(messages[-1]), "Results: value of a.", "a second turn")


def check_structured_output():
    for name, model in models():
        for question in ("json", "rounds-json"):
            with case(f"{name}, {question}"):
                structured = model.with_structured_output(Weather, method="json_schema")
                equal(structured.invoke(question), PARIS)


@every
def check_errors(ask):
    for scenario in ("status 400", "broken"):
        try:
            answer = ask([HumanMessage(scenario)])
        except Exception as error:
            contains(str(error), "scripted")
            continue
        raise AssertionError(f"{scenario} raised no error: {answer}")


run(globals())
