// Runs oidc-provider with the clients that the tests register. It reads a configuration from stdin as JSON, and writes its
// issuer to stdout. It serves an API as well: /api for tokens of the client credentials grant, and /me, which is the
// provider's own userinfo endpoint, for those of the other grants. /grant consents for a user, in place of a browser,
// and returns the refresh token.
import { createServer } from 'node:https';
import { text } from 'node:stream/consumers';
import { createLocalJWKSet, jwtVerify } from 'jose';
import Provider from 'oidc-provider';
import validateProof from 'oidc-provider/lib/helpers/validate_dpop.js';

const config = JSON.parse(await text(process.stdin));
let handler;
const server = createServer({ key: config.key, cert: config.cert, ca: config.ca, requestCert: true, rejectUnauthorized: false }, (req, res) => handler(req, res));
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const issuer = `https://127.0.0.1:${server.address().port}`;
const certificate = (ctx) => ctx.req.socket.getPeerX509Certificate();

const provider = new Provider(issuer, {
  clients: config.clients,
  scopes: ['openid', 'offline_access', 'read', 'write'],
  rotateRefreshToken: (ctx) => !ctx.oidc.client.clientId.startsWith('stays'),
  clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'client_secret_jwt', 'private_key_jwt', 'tls_client_auth', 'none'],
  enabledJWA: { clientAuthSigningAlgValues: ['ES256', 'PS256', 'RS256', 'EdDSA', 'HS256'], dPoPSigningAlgValues: ['ES256', 'EdDSA', 'PS256'] },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 7), requireNonce: () => true },
    mTLS: {
      enabled: true,
      tlsClientAuth: true,
      certificateBoundAccessTokens: true,
      getCertificate: certificate,
      certificateAuthorized: (ctx) => ctx.req.socket.authorized,
      certificateSubjectMatches: (ctx, property, expected) => property === 'tls_client_auth_san_dns' && certificate(ctx).subjectAltName === `DNS:${expected}`,
    },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (ctx, resource) => ({ scope: 'read write', audience: resource, accessTokenFormat: 'opaque' }),
    },
  },
});

// The provider has no JWT bearer grant (RFC 7523) of its own, but lets one be added. Proofs are checked by the provider.
const keys = createLocalJWKSet(config.issuers);
provider.registerGrantType('urn:ietf:params:oauth:grant-type:jwt-bearer', async (ctx, next) => {
  const { client, params } = ctx.oidc;
  const proof = await validateProof(ctx);
  const { payload } = await jwtVerify(params.assertion, keys, { issuer: client.clientId, audience: issuer, requiredClaims: ['sub', 'jti'], maxTokenAge: '3m' });
  const grant = new provider.Grant({ accountId: payload.sub, clientId: client.clientId });
  grant.addOIDCScope('openid');
  const token = new provider.AccessToken({ accountId: payload.sub, client, grantId: await grant.save(), scope: 'openid' });
  token.setThumbprint('jkt', proof.thumbprint);
  ctx.oidc.entity('AccessToken', token);
  ctx.body = { access_token: await token.save(), expires_in: token.expiration, token_type: token.tokenType };
  await next();
}, ['assertion', 'scope']);

// What each request was, and its answer, for the tests.
const seen = [];
provider.use(async (ctx, next) => {
  if (ctx.path === '/seen') {
    ctx.body = seen;
    return;
  }
  if (ctx.path === '/grant') {
    const client = await provider.Client.find(ctx.query.client);
    const scope = 'openid offline_access';
    const grant = new provider.Grant({ accountId: 'ann', clientId: client.clientId });
    grant.addOIDCScope(scope);
    const token = new provider.RefreshToken({ accountId: 'ann', client, grantId: await grant.save(), scope, gty: 'authorization_code', expiresIn: 86400 });
    ctx.body = { refresh_token: await token.save() };
    return;
  }
  if (ctx.path === '/api') {
    const token = await provider.ClientCredentials.find(ctx.get('Authorization').replace(/^Bearer /, ''));
    const bound = token?.['x5t#S256'];
    const thumbprint = bound && Buffer.from(certificate(ctx)?.fingerprint256.replaceAll(':', '') ?? '', 'hex').toString('base64url');
    ctx.status = token && bound === thumbprint ? 200 : 401;
    ctx.body = { client: token?.clientId, scope: token?.scope, audience: token?.aud, bound: Boolean(bound) };
  } else {
    await next();
  }
  seen.push({ path: ctx.path, status: ctx.status, error: ctx.body?.error });
});
handler = provider.callback();
console.log(issuer);
