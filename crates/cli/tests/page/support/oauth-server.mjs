// A remote MCP server that requires a login, and its authorization server, on one port.
import http from 'node:http';

export class OAuthServer {
  /** How many logins were completed. */
  logins = 0;
  /** How often the login page was opened. */
  authorizations = 0;

  static async start() {
    const server = new OAuthServer();
    server.http = http.createServer((request, response) => server.#answer(request, response));
    await new Promise((resolve) => server.http.listen(0, '127.0.0.1', resolve));
    server.url = `http://127.0.0.1:${server.http.address().port}`;
    return server;
  }

  async stop() {
    this.http.closeAllConnections();
    await new Promise((resolve) => this.http.close(resolve));
  }

  async #answer(request, response) {
    const url = new URL(request.url, this.url);
    let body = '';
    for await (const part of request) body += part;
    const send = (status, value, headers = {}) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(JSON.stringify(value));
    };
    if (url.pathname.startsWith('/.well-known/oauth-protected-resource')) {
      return send(200, { resource: `${this.url}/mcp`, authorization_servers: [this.url] });
    }
    if (url.pathname.startsWith('/.well-known/')) {
      return send(200, {
        issuer: this.url,
        authorization_endpoint: `${this.url}/authorize`,
        token_endpoint: `${this.url}/token`,
        registration_endpoint: `${this.url}/register`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      });
    }
    if (url.pathname === '/register') {
      return send(201, { ...JSON.parse(body), client_id: 'client', token_endpoint_auth_method: 'none' });
    }
    if (url.pathname === '/authorize') {
      this.authorizations += 1;
      const target = new URL(url.searchParams.get('redirect_uri'));
      target.searchParams.set('code', 'the-code');
      target.searchParams.set('state', url.searchParams.get('state'));
      response.writeHead(302, { location: target.href });
      return response.end();
    }
    if (url.pathname === '/token') {
      this.logins += 1;
      return send(200, { access_token: 'the-token', token_type: 'Bearer', expires_in: 3600 });
    }
    if (request.headers.authorization !== 'Bearer the-token') {
      const challenge = `Bearer resource_metadata="${this.url}/.well-known/oauth-protected-resource"`;
      return send(401, {}, { 'www-authenticate': challenge });
    }
    if (request.method !== 'POST') return send(405, {});
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) {
      response.writeHead(202);
      return response.end();
    }
    const results = {
      initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'remote', version: '1' } }),
      'tools/list': () => ({ tools: [{ name: 'remote_tool', description: 'A remote tool', inputSchema: { type: 'object' } }] }),
    };
    const result = results[method];
    return send(200, { jsonrpc: '2.0', id, ...(result ? { result: result() } : { error: { code: -32601, message: 'unknown method' } }) });
  }
}
