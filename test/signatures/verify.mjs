// Verifies signed requests with packages by others. It reads one request from each line of stdin, as JSON, and writes "valid" or
// the reason why it is not, as JSON, in the same order.
import { createHash, createPublicKey } from 'node:crypto';
import { createInterface } from 'node:readline';
import Hawk from 'hawk';
import { createVerifier, httpbis } from 'http-message-signatures';
import { jwkToKeyID, verify as verifyBot } from 'web-bot-auth';
import { helpers, verifierFromJWK } from 'web-bot-auth/crypto';

const lowered = (headers) => Object.fromEntries(Object.entries(headers).map(([name, values]) => [name.toLowerCase(), values]));

// keyOf returns the key as the package http-message-signatures takes it.
const keyOf = ({ algorithm, key }) => (algorithm === 'hmac-sha256' ? Buffer.from(key, 'base64') : createPublicKey(key));

// digestProblem returns what is wrong with Content-Digest, or ''.
function digestProblem(request) {
  const [value] = lowered(request.headers)['content-digest'] ?? [];
  if (!value) return '';
  const [, algorithm, digest] = /^(sha-256|sha-512)=:(.*):$/.exec(value) ?? [];
  const want = algorithm && createHash(algorithm.replace('-', '')).update(Buffer.from(request.body, 'base64')).digest('base64');
  return want && want === digest ? '' : `Content-Digest: ${value}`;
}

const judges = {
  async 'http-message-signatures'(request) {
    const key = { algs: [request.algorithm], verify: createVerifier(keyOf(request), request.algorithm) };
    const message = { method: request.method, url: request.url, headers: request.headers };
    const valid = await httpbis.verifyMessage({ keyLookup: async () => key, all: true }, message);
    return valid ? digestProblem(request) || 'valid' : 'the signature does not verify';
  },
  async 'web-bot-auth'(request) {
    const jwk = createPublicKey(request.key).export({ format: 'jwk' });
    const valid = await verifierFromJWK(jwk);
    const thumbprint = await jwkToKeyID(jwk, helpers.WEBCRYPTO_SHA256, helpers.BASE64URL_DECODE);
    await verifyBot({ method: request.method, url: request.url, headers: request.headers }, async (data, signature, params) => {
      if (params.keyid !== thumbprint) throw new Error(`keyid is ${params.keyid}, the thumbprint ${thumbprint}`);
      return valid(data, signature, params);
    });
    return 'valid';
  },
  async hawk(request) {
    const { host, pathname, search } = new URL(request.url);
    const message = {
      method: request.method, url: pathname + search, connection: { encrypted: true },
      headers: { host, authorization: request.headers.Authorization[0], 'content-type': request.headers['Content-Type'][0] },
    };
    const payload = Buffer.from(request.body ?? '', 'base64');
    await Hawk.server.authenticate(message, async () => ({ key: request.key, algorithm: 'sha256' }), { timestampSkewSec: 1e10, payload });
    return 'valid';
  },
};

// The judges of JWS are loaded when they are asked.
const text = (request) => Buffer.from(request.body, 'base64').toString();

// whole returns a JWS with its payload, in base64url or as it is.
const whole = (request) => {
  const [header, , signature] = request.headers[request.header][0].split('.');
  const body = Buffer.from(request.body, 'base64');
  return [header, request.raw ? body.toString() : body.toString('base64url'), signature].join('.');
};

Object.assign(judges, {
  async truelayer(request) {
    const { default: { verify } } = await import('truelayer-signing');
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, values]) => [name, values[0]]));
    verify({
      publicKeyPem: request.key, signature: headers[request.header], method: request.method, path: new URL(request.url).pathname, headers,
      body: text(request), requiredHeaders: ['Idempotency-Key'],
    });
    return 'valid';
  },
  async jws(request) {
    const { flattenedVerify } = await import('jose');
    const [header, , signature] = request.headers[request.header][0].split('.');
    const body = Buffer.from(request.body, 'base64');
    const payload = request.raw ? new Uint8Array(body) : body.toString('base64url');
    await flattenedVerify({ protected: header, payload, signature }, createPublicKey(request.key), { crit: { 'http://openbanking.org.uk/tan': true } });
    return 'valid';
  },
  async jose(request) {
    const { jwtVerify } = await import('jose');
    await jwtVerify(request.token ?? whole(request), createPublicKey(request.key));
    return 'valid';
  },
  async dpop(request) {
    const { EmbeddedJWK, jwtVerify } = await import('jose');
    const { payload } = await jwtVerify(request.headers.Dpop[0], EmbeddedJWK, { typ: 'dpop+jwt', requiredClaims: ['jti', 'iat'] });
    const { origin, pathname } = new URL(request.url);
    const ath = createHash('sha256').update(request.headers.Authorization[0].replace(/^DPoP /, '')).digest('base64url');
    const right = payload.htm === request.method && payload.htu === origin + pathname && payload.ath === ath;
    return right ? 'valid' : `the claims are ${JSON.stringify(payload)}`;
  },
  async jsonwebtoken(request) {
    const { default: { verify } } = await import('jsonwebtoken');
    verify(request.token ?? whole(request), request.key, { algorithms: ['RS256', 'PS256', 'ES256', 'ES512'] });
    return 'valid';
  },
});

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const verdict = await judges[request.judge](request).catch((error) => `${error.name}: ${error.message}`);
  console.log(JSON.stringify(verdict));
}
