// The requests of the script of an attacker's page to a gateway. Each result has what the page could read of the
// response.
import http from 'node:http';

/** A web server of the attacker, with an empty page. */
export class AttackerServer {
  static async start(port = 0) {
    const server = new AttackerServer();
    server.http = http.createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>page</title>'));
    await new Promise((resolve, reject) => server.http.once('error', reject).listen(port, '127.0.0.1', resolve));
    server.port = server.http.address().port;
    return server;
  }

  async stop() {
    this.http.closeAllConnections();
    await new Promise((resolve) => { this.http.close(resolve); });
  }
}

const MESSAGES = [{ role: 'user', content: 'hi' }];
const modern = (method, params) => ({
  jsonrpc: '2.0',
  id: 1,
  method,
  params: {
    ...params,
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'a', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    },
  },
});

/** Requests that have an effect, or whose response says something, when a program of this machine sends them. */
export function requests(model, tool) {
  const accept = 'application/json, text/event-stream';
  const json = (path, body, headers = {}) => ({ path, method: 'POST', type: 'application/json', headers, body: JSON.stringify(body) });
  const mcp = (body, headers) => json('/mcp', body, { accept, ...headers });
  const call = { name: tool, arguments: {} };
  const get = (path, headers = {}) => ({ path, method: 'GET', headers });
  return [
    json('/v1/chat/completions', { model, messages: MESSAGES }),
    json('/v1/chat/completions', { model, messages: MESSAGES, stream: true }),
    json('/v1/responses', { model, input: 'hi' }),
    json('/v1/messages', { model, max_tokens: 9, messages: MESSAGES }),
    json('/v1/conversations', {}),
    mcp({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a', version: '1' } } }),
    mcp(modern('tools/list', {}), { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }),
    mcp(modern('tools/call', call), { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': tool }),
    { path: `/-/tools/${tool}/call`, method: 'POST', headers: {}, type: 'application/x-www-form-urlencoded', body: 'act=call' },
    ...['/', '/tools', `/tools/${tool}`, '/servers', '/servers.json', '/traffic', '/dialects', '/sign-in'].map((path) => get(path)),
    ...['/v1/models', '/healthz', '/readyz', '/metrics'].map((path) => get(path)),
  ];
}

/**
 * Sends all requests in all ways that a page has. `base`: the origin of the gateway, or an empty text for that of the page.
 * Runs in the page.
 */
export async function attack({ base, requests: all }) {
  const origin = base || location.origin;
  const paths = [...new Set(all.map(({ path }) => path))];
  const results = [];
  const record = (way, path, found) => results.push({ way, path, ...found });
  const event = (target, ...names) => new Promise((resolve) => { for (const name of names) target.addEventListener(name, () => resolve(name), { once: true }); });

  for (const { path, method, headers, type, body } of all) {
    const send = async (way, options) => {
      try {
        const response = await fetch(`${base}${path}`, { method, body, ...options });
        record(way, path, { status: response.status, text: await response.text() });
      } catch (error) {
        record(way, path, { refused: error.name });
      }
    };
    await send('fetch', { headers: type ? { ...headers, 'content-type': type } : headers });
    await send('fetch without CORS', { mode: 'no-cors', headers: type ? { 'content-type': 'text/plain' } : {} });
    if (method === 'POST') navigator.sendBeacon(`${base}${path}`, new Blob([body], { type: 'text/plain' }));
  }

  for (const path of ['/-/events?topics=traffic', '/mcp', '/v1/responses/resp_1?stream=true']) {
    const source = new EventSource(`${base}${path}`);
    record('EventSource', path, { event: await event(source, 'open', 'error') });
    source.close();
  }
  for (const path of ['/v1/responses', '/mcp', '/-/events']) {
    const socket = new WebSocket(`${origin.replace('http', 'ws')}${path}`);
    record('WebSocket', path, { event: await event(socket, 'open', 'error') });
    socket.close();
  }

  const read = (frame) => {
    try {
      return frame.contentDocument?.documentElement.textContent ?? null;
    } catch {
      return null;
    }
  };
  const inFrame = async (way, path, load) => {
    const frame = document.createElement('iframe');
    frame.name = `frame${results.length}`;
    document.body.append(frame);
    const loaded = event(frame, 'load');
    load(frame);
    await loaded;
    record(way, path, { text: read(frame) });
    frame.remove();
  };
  for (const path of paths) await inFrame('frame', path, (frame) => { frame.src = `${base}${path}`; });
  for (const { path, method, body } of all) {
    if (method === 'GET') continue;
    for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      await inFrame(`form, ${enctype}`, path, ({ name }) => {
        const form = Object.assign(document.createElement('form'), { method, enctype, action: `${base}${path}`, target: name });
        // With `text/plain`, the body is `NAME=VALUE`: the JSON is split so that the whole body is JSON.
        const [start, end] = body.startsWith('{') ? [`${body.slice(0, -1)},"x":"`, '"}'] : body.split('=');
        form.append(Object.assign(document.createElement('input'), { name: start, value: end }));
        document.body.append(form);
        form.submit();
        form.remove();
      });
    }
  }
  for (const path of paths) {
    for (const [tag, attribute] of [['img', 'src'], ['script', 'src'], ['link', 'href'], ['video', 'src'], ['object', 'data']]) {
      const element = document.createElement(tag);
      if (tag === 'link') element.rel = 'stylesheet';
      const done = event(element, 'load', 'error', 'loadeddata');
      element[attribute] = `${base}${path}`;
      document.body.append(element);
      record(tag, path, { event: await done });
      element.remove();
    }
  }
  return results;
}
