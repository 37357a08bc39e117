// An OpenID provider for tests: `node provider.mjs`, with its configuration as JSON on the first line of its input.
// It prints its address once it listens, and ends when its input does.
//
// {modules, host, key, cert, clients, accounts: {NAME: {groups, ...}}, machines: {CLIENT: {groups, ...}}, audience,
//  seconds}
import { createServer } from 'node:https';
import { pathToFileURL } from 'node:url';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const lines = createInterface({ input: process.stdin });
const given = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);
lines.on('close', () => process.exit(0));
process.stdin.resume();

const at = (...parts) => pathToFileURL(join(given.modules, ...parts)).href;
const { Provider } = await import(at('oidc-provider', 'lib', 'index.js'));

let answer = (_, response) => response.end();
const server = createServer({ key: given.key, cert: given.cert }, (request, response) => answer(request, response));
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const issuer = `https://${given.host}:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: given.clients,
  conformIdTokenClaims: false, // groups are in the ID token
  claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...given.accounts[id] }) }),
  scopes: ['openid', 'submit'],
  cookies: { keys: ['of tests'] },
  ttl: { AccessToken: given.seconds, IdToken: given.seconds, ClientCredentials: given.seconds, Interaction: 600,
    Session: 600, Grant: 600, AuthorizationCode: 60 },
  // Of machines, such as CI jobs: JWT access tokens by client_credentials.
  extraTokenClaims: (_, token) => given.machines[token.clientId],
  features: {
    devInteractions: { enabled: true }, // forms for any name and password
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (context) => (context.oidc.route === 'token' && !context.oidc.account ? given.audience : []),
      getResourceServerInfo: () => ({ scope: 'submit', accessTokenFormat: 'jwt', audience: given.audience }),
    },
  },
});
provider.on('server_error', (_, error) => console.error(error));
answer = provider.callback();
console.log(issuer);
