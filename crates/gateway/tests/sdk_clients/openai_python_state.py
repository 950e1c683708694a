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


def check_conversations():
    conversations = client.conversations
    conversation = conversations.create(metadata={"a": "b"}, items=[{"role": "user", "content": "zero"}])
    equal(conversations.retrieve(conversation.id), conversation)
    equal(conversations.update(conversation.id, metadata={"c": "d"}).metadata, {"c": "d"})
    first = create("say one", conversation=conversation.id)
    equal(first.conversation.id, conversation.id)
    with client.responses.stream(model=MODEL, input="rounds", conversation={"id": conversation.id}) as stream:
        equal([item.content[0].text for item in stream.get_final_response().output], ROUNDS)
    added = conversations.items.create(conversation.id, items=[{"role": "user", "content": "added"}])
    [item] = added.data
    texts = [item.content[0].text for item in conversations.items.list(conversation.id, order="asc", limit=3)]
    equal(texts, ["zero", "say one", "one", "rounds", *ROUNDS, "added"])
    equal(conversations.items.retrieve(item.id, conversation_id=conversation.id).content[0].text, "added")
    equal(conversations.items.delete(item.id, conversation_id=conversation.id).id, conversation.id)
    equal(conversations.delete(conversation.id).deleted, True)
    raises(openai.NotFoundError, lambda: conversations.retrieve(conversation.id))
    raises(openai.NotFoundError, lambda: create("say two", conversation=conversation.id))


def check_background():
    response = create("rounds", background=True)
    equal((response.status, response.background), ("queued", True))
    while response.status in ("queued", "in_progress"):
        response = client.responses.retrieve(response.id)
    equal((response.status, [item.content[0].text for item in response.output]), ("completed", ROUNDS))
    events = list(client.responses.retrieve(response.id, stream=True))
    equal([event.sequence_number for event in events], list(range(len(events))))
    equal([event.type for event in events[:3]], ["response.created", "response.queued", "response.in_progress"])
    equal(list(client.responses.retrieve(response.id, stream=True, starting_after=5)), events[6:])
    with client.responses.stream(response_id=response.id, starting_after=5) as stream:
        equal(stream.get_final_response().output_text, response.output_text)
    equal(create("say two", previous_response_id=response.id, background=True).status, "queued")


def check_background_stream():
    with client.responses.stream(model=MODEL, input="rounds", background=True) as stream:
        response = stream.get_final_response()
    equal(client.responses.retrieve(response.id).output_text, response.output_text)


def check_cancel():
    response = create("wait", background=True)
    cancelled = client.responses.cancel(response.id)
    equal((cancelled.status, client.responses.cancel(response.id).status), ("cancelled", "cancelled"))
    equal(list(client.responses.retrieve(response.id, stream=True))[-1].response.status, "cancelled")
    raises(openai.BadRequestError, lambda: client.responses.cancel(create("say hi").id))
    raises(openai.BadRequestError, lambda: create("say hi", background=True, store=False))
    raises(openai.NotFoundError, lambda: client.responses.cancel("resp_unknown"))


run(globals())
