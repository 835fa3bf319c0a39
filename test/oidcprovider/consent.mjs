// Runs oidc-provider for users who consent in a browser. It writes its issuer to stdout, reads clients from stdin as JSON, and
// writes a second line once it serves. /me is an API for the access tokens: the provider's own userinfo endpoint. Refresh tokens
// rotate, and one that is used twice ends its grant. With fapi, it wants what FAPI 2.0 does: requests that are pushed, clients and
// tokens that are bound to keys, and nonces in proofs. Then no refresh token rotates. /seen has what each request was, and its answer.
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import Provider from 'oidc-provider';

let handler;
const server = createServer((req, res) => handler(req, res));
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const issuer = `http://localhost:${server.address().port}`; // to a browser, another site than 127.0.0.1
console.log(issuer);
const { clients, fapi } = JSON.parse(await text(process.stdin));

// A client may want a token for another server (RFC 8707): a JWT whose audience is that resource.
const forResource = (ctx, resource) => ({ scope: 'connectors', audience: resource, accessTokenTTL: 600, accessTokenFormat: 'jwt' });

const provider = new Provider(issuer, {
  clients,
  clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'],
  enabledJWA: { clientAuthSigningAlgValues: ['ES256', 'RS256'], dPoPSigningAlgValues: ['ES256'] },
  scopes: ['openid', 'offline_access'],
  pkce: { required: () => true },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: () => true,
  rotateRefreshToken: () => !fapi,
  ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600, IdToken: 600 },
  clientBasedCORS: (ctx, origin, client) => client.redirectUris.some((uri) => new URL(uri).origin === origin),
  features: {
    devInteractions: { enabled: false },
    dPoP: { enabled: fapi, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => true },
    fapi: { enabled: fapi, profile: '2.0' },
    pushedAuthorizationRequests: { enabled: true, requirePushedAuthorizationRequests: fapi },
    revocation: { enabled: true },
    resourceIndicators: { enabled: true, defaultResource: () => undefined, getResourceServerInfo: forResource },
  },
});

const escape = (value) => String(value).replace(/[^\w .:/-]/g, (c) => `&#${c.charCodeAt(0)};`);

// A user signs in with a name alone, and allows or refuses all that the client wants, on one page.
async function interact(ctx) {
  const { uid, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  if (ctx.method === 'GET') {
    ctx.type = 'html';
    ctx.body = `<!doctype html><title>Sign in</title><form method="post" action="/interaction/${uid}">
      <p>${escape(params.client_id)} wants ${escape(params.scope)}</p>
      <input name="account" value="${escape(session?.accountId ?? '')}"><button name="answer" value="allow">Allow</button><button name="answer" value="refuse">Refuse</button></form>`;
    return;
  }
  const form = new URLSearchParams(await text(ctx.req));
  let result = { error: 'access_denied', error_description: 'the user has refused' };
  if (form.get('answer') === 'allow') {
    const grant = new provider.Grant({ accountId: form.get('account'), clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    if (params.resource) grant.addResourceScope(params.resource, params.scope);
    result = { login: { accountId: form.get('account') }, consent: { grantId: await grant.save() } };
  }
  ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result, { mergeWithLastSubmission: false }));
}

const seen = [];
provider.use(async (ctx, next) => {
  if (ctx.path === '/seen') {
    ctx.body = seen;
    return;
  }
  await (ctx.path.startsWith('/interaction/') ? interact(ctx) : next());
  seen.push({ path: ctx.path, status: ctx.status, error: ctx.body?.error });
});
handler = provider.callback();
console.log('ready');
