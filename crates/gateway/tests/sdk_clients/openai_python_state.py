"""The SDK of OpenAI for Python: stored responses."""

import openai
from openai_support import *

TOOLS = [{"type": "function", "name": "get_weather", "parameters": WEATHER}]


def create(input, **arguments):
    return client.responses.create(model=MODEL, input=input, **arguments)


def check_create_and_retrieve():
    response = create("rounds", metadata={"a": "b"})
    equal(response.store, True)
    equal(client.responses.retrieve(response.id), response)
    items = list(client.responses.input_items.list(response.id))
    equal([(item.type, item.role, item.content[0].text) for item in items], [("message", "user", "rounds")])
    with client.responses.stream(model=MODEL, input="say hi") as stream:
        streamed = stream.get_final_response()
    equal(client.responses.retrieve(streamed.id).output_text, "hi")


def check_conversation():
    first = create("ours", instructions="Be brief.")
    second = create("say two", previous_response_id=first.id)
    equal((second.output_text, second.previous_response_id), ("two", first.id))
    with client.responses.stream(model=MODEL, input="say three", previous_response_id=second.id) as stream:
        third = stream.get_final_response()
    equal((third.output_text, third.previous_response_id), ("three", second.id))
    # Two items on each page.
    texts = [item.content[0].text for item in client.responses.input_items.list(third.id, limit=2, order="asc")]
    equal(texts, ["ours", "Results: value of a.", "say two", "two", "say three"])
    ids = [item.id for item in client.responses.input_items.list(third.id)]
    equal(len(set(ids)), 5)


def check_tool_of_client():
    for scenario in ["client", "mixed"]:
        first = create(scenario, tools=TOOLS)
        [call] = [item for item in first.output if item.type == "function_call"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        second = create([result], tools=TOOLS, previous_response_id=first.id)
        contains(second.output_text, "sunny")


def check_approval():
    server = {"type": "mcp", "server_label": "demo", "server_url": "toolwire://demo", "require_approval": "always"}
    first = create("ours", tools=[server])
    [request] = [item for item in first.output if item.type == "mcp_approval_request"]
    approval = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    second = create([approval], tools=[server], previous_response_id=first.id)
    equal([item.type for item in second.output], ["mcp_call", "message"])
    equal(second.output_text, "Results: value of a.")
    raises(openai.BadRequestError, lambda: create([approval], tools=[server], previous_response_id=first.id))


def check_delete():
    response = create("say hi")
    equal(client.responses.delete(response.id), None)
    raises(openai.NotFoundError, lambda: client.responses.retrieve(response.id))
    raises(openai.NotFoundError, lambda: client.responses.delete(response.id))
    raises(openai.NotFoundError, lambda: client.responses.input_items.list(response.id))
    error = raises(openai.BadRequestError, lambda: create("say hi", previous_response_id=response.id))
    equal((error.code, error.param), ("previous_response_not_found", "previous_response_id"))


def check_not_stored():
    response = create("say hi", store=False)
    equal(response.store, False)
    raises(openai.NotFoundError, lambda: client.responses.retrieve(response.id))


def check_other_key():
    response = create("say hi")
    other = OpenAI(base_url=f"{GATEWAY_WITH_KEY}/v1", api_key=KEY, max_retries=0)
    raises(openai.NotFoundError, lambda: other.responses.retrieve(response.id))


run(globals())
