// A server with one page and scripted events, for tests of the module `page.js` alone.
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';

const POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' blob:", "media-src 'self' blob:", "connect-src 'self'",
  "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", 'trusted-types toolwire',
].join('; ');
const TYPES = { '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml' };

export class Mock {
  /** The `after` of each request for events. */
  streams = [];
  /** The requests other than those of pages, files and events. */
  requests = [];
  /** Path → function from the request to its reply: a string is HTML, an object is JSON. */
  routes = {};
  #open = new Set();
  #sequence = 1;
  boot = 'boot1';

  static async start(content = {}) {
    const mock = new Mock();
    mock.content = content;
    mock.server = http.createServer((request, response) => mock.#answer(request, response));
    await new Promise((resolve) => mock.server.listen(0, '127.0.0.1', resolve));
    mock.url = `http://127.0.0.1:${mock.server.address().port}`;
    return mock;
  }

  async stop() {
    this.closeStreams();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #answer(request, response) {
    const url = new URL(request.url, this.url);
    if (url.pathname.startsWith('/-/assets/')) {
      const name = path.basename(url.pathname);
      response.writeHead(200, { 'content-type': TYPES[path.extname(name)] });
      return response.end(await readFile(path.join(process.env.PAGE_TEST_ASSETS, name)));
    }
    if (url.pathname === '/-/events') {
      this.streams.push(url.searchParams.get('after'));
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write('retry: 500\n\nevent: beat\ndata: {}\n\n');
      this.#open.add(response);
      return response.on('close', () => this.#open.delete(response));
    }
    const route = this.routes[url.pathname];
    if (route) {
      let body = '';
      for await (const part of request) body += part;
      const seen = { path: url.pathname, method: request.method, query: Object.fromEntries(url.searchParams), accept: request.headers.accept, body };
      this.requests.push(seen);
      const reply = await route(seen);
      const isHtml = typeof reply === 'string';
      response.writeHead(200, { 'content-type': isHtml ? 'text/html; charset=utf-8' : 'application/json' });
      return response.end(isHtml ? reply : JSON.stringify(reply));
    }
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': POLICY });
    return response.end(document(url.pathname, this.content));
  }

  /** Sends an event to all open streams. */
  emit(type, data = {}) {
    const id = `${this.boot}-${(this.#sequence += 1)}`;
    for (const stream of this.#open) stream.write(`id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
    return id;
  }

  /** The number of open streams. */
  get open() {
    return this.#open.size;
  }

  closeStreams() {
    for (const stream of this.#open) stream.destroy();
  }
}

function document(path, { main = '', keys = [], view = 'chat', list = '', body = '', build = 'build1' }) {
  const rows = keys.map(([names, action, text]) => `<tr data-keys="${names}" data-do="${action}"><td><kbd>${names}</kbd></td><td>${text ?? action}</td></tr>`);
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${path}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/-/assets/x/icon.svg"><link rel="stylesheet" href="/-/assets/x/page.css">
<script type="module" src="/-/assets/x/page.js"></script></head>
<body data-view="${view}" data-topics="one two" data-event="boot1-1" data-build="${build}" class="has-item">
<nav class="rail" aria-label="Views"><a class="rail-link" href="/">Chat<span class="dot" id="dot-chat" hidden></span></a><a class="rail-link" href="/servers">Servers</a></nav>
${list && `<aside class="list" id="list" aria-label="List">${list}</aside>`}
<main id="main" tabindex="-1"><div class="bar" id="connection" hidden></div><h1>Mock</h1>${main}</main>
<p class="unseen" id="say" role="status"></p><p class="unseen" id="alert" role="alert"></p>
<dialog id="palette" aria-label="Go to"><form method="dialog"><input name="q" aria-label="Go to"></form><ul role="listbox" id="palette-entries" aria-label="Entries"></ul></dialog>
<dialog id="keys" aria-label="Keys"><table><tbody>${rows.join('')}</tbody></table><label><input type="checkbox" id="letter-keys" checked> Keys of one letter</label></dialog>
${body}</body></html>`;
}
