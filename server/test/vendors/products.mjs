// Makes the credentials of requests with the vendors' own clients, at the times and with the nonces of Keywright's requests.
// It reads a JSON array of requests from stdin, and writes one of pairs: what Keywright sent, and what the client sends.
import crypto from "node:crypto";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { text } from "node:stream/consumers";
import alibaba from "@alicloud/openapi-util";
import { Spot } from "@binance/connector";
import { generateJwt } from "@coinbase/cdp-sdk/auth";
import edgegrid from "./node_modules/akamai-edgegrid/src/auth.js";
import { AlipaySdk } from "alipay-sdk";
import atlassian from "atlassian-jwt";
import ebay from "digital-signature-nodejs-sdk";
import kraken from "./node_modules/ccxt/js/src/kraken.js";
import { ApiTokenProvider } from "fireblocks-sdk/dist/src/api-token-provider.js";
import { IamAuthenticator } from "ibm-cloud-sdk-core";
import { compactVerify, decodeJwt, decodeProtectedHeader } from "jose";
import kucoinConfig from "kucoin-node-sdk/src/lib/config.js";
import kucoin from "kucoin-node-sdk/src/lib/utils.js";
import OAuth from "mastercard-oauth1-signer";
import ovh from "ovh";
import tencent from "tencentcloud-sdk-nodejs-common/tencentcloud/common/sign.js";

const now = Date.now;
const uuid = crypto.randomUUID;
const bodyHash = OAuth.getBodyHash;

// at runs f at a time in milliseconds, with a UUID.
async function at(time, id, f) {
  Date.now = () => time;
  crypto.randomUUID = () => id;
  syncBuiltinESMExports();
  try {
    return await f();
  } finally {
    Date.now = now;
    crypto.randomUUID = uuid;
    syncBuiltinESMExports();
  }
}

// recorded returns the request that f sends to a server with an answer.
async function recorded(f, answer = {}) {
  let request;
  const server = createServer(async (r, w) => {
    request = { url: r.url, headers: r.headers, body: await text(r) };
    w.setHeader("Content-Type", "application/json");
    w.end(JSON.stringify(answer));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await f(`http://127.0.0.1:${server.address().port}`).catch(() => {}); // clients refuse the answer
  } finally {
    server.close();
    server.closeAllConnections();
  }
  return request;
}

const bearer = (r) => r.header.Authorization[0].split(" ")[1];
const decode = (token) => ({ header: decodeProtectedHeader(token), claims: decodeJwt(token) });

const judges = {
  async binance(r) {
    const params = Object.fromEntries(new URLSearchParams(r.target.split("?")[1]));
    const { timestamp, signature, ...own } = params;
    const want = await at(Number(timestamp), "", () =>
      recorded((baseURL) => {
        const client = new Spot(r.header["X-Mbx-Apikey"][0], "", { baseURL, privateKey: r.key, privateKeyAlgo: r.algorithm });
        return client.signRequest(r.method, r.target.split("?")[0], own);
      }),
    );
    return [r.target, want.url];
  },
  async alipay(r) {
    const value = (name) => r.header.Authorization[0].match(`${name}=([^,]+)`)[1];
    const want = await at(Number(value("timestamp")), value("nonce"), () =>
      recorded((endpoint) => {
        const client = new AlipaySdk({ appId: r.set["your-app-id"], privateKey: r.key, keyType: "PKCS8", alipayPublicKey: r.key, endpoint });
        const [path, query] = r.target.split("?");
        return client.curl(r.method, path, {
          query: query && Object.fromEntries(new URLSearchParams(query)),
          body: r.body ? JSON.parse(r.body) : undefined,
        });
      }),
    );
    return [r.header.Authorization[0], want.headers.authorization];
  },
  atlassian(r) {
    const claims = atlassian.decodeSymmetric(bearer(r), r.key, "HS256");
    const qsh = atlassian.createQueryStringHash(atlassian.fromMethodAndUrl(r.method, r.target), false, r.base);
    return [claims, { ...claims, qsh, iss: r.set["your-app-key"] }];
  },
  async fireblocks(r) {
    await compactVerify(bearer(r), crypto.createPublicKey(r.key));
    const got = decode(bearer(r));
    const { nonce, iat, exp } = got.claims;
    const want = decode(
      await at(iat * 1000, "", () => new ApiTokenProvider(r.key, r.header["X-Api-Key"][0]).signJwt(r.target, r.body && JSON.parse(r.body))),
    );
    return [got, { ...want, claims: { ...want.claims, nonce, exp } }]; // the nonce is random; the client's lifetime is 55 s
  },
  async coinbase(r) {
    await compactVerify(bearer(r), crypto.createPublicKey(r.public));
    const got = decode(bearer(r));
    const { nbf, exp } = got.claims;
    const want = decode(
      await at(nbf * 1000, "", () =>
        generateJwt({
          apiKeyId: r.set["your-key-name"],
          apiKeySecret: r.key,
          requestMethod: r.method,
          requestHost: r.header.Host[0],
          requestPath: r.target,
          expiresIn: exp - nbf,
        }),
      ),
    );
    want.header.nonce = got.header.nonce;
    delete want.claims.iat; // the page of the Advanced Trade API has none
    return [got, want];
  },
  async ebay(r) {
    const headers = Object.fromEntries(Object.entries(r.header).map(([name, [value]]) => [name.toLowerCase(), value]));
    const signatureComponents = { method: r.method, authority: headers.host, path: r.target.split("?")[0] };
    const validate = (changed) =>
      ebay.validateSignature({ headers, body: r.body }, { masterKey: r.public, signatureComponents: { ...signatureComponents, ...changed } });
    const [input, created] = headers["signature-input"].match(/^.*;created=([0-9]+)/);
    const signatureParams = ["content-digest", "x-ebay-signature-key", "@method", "@path", "@authority"];
    const want = await at(Number(created) * 1000, "", () => ebay.generateSignatureInput(headers, { signatureParams }));
    return [
      [await validate({}), await validate({ path: "/sell/finances/v1/transfer" }), await validate({ method: "HEAD" }), input],
      [true, false, false, want],
    ];
  },
  mastercard(r) {
    const parameters = (authorization) => authorization.replace("OAuth ", "").split(/, ?/).sort();
    const value = (name) => r.header.Authorization[0].match(`oauth_${name}="([^"]+)"`)[1];
    const hash = bodyHash(r.body);
    // The client signs the texts of the header as they stand there, and has no percent-encoding (RFC 5849 section 3.5.1).
    Object.assign(OAuth, { getNonce: () => value("nonce"), getTimestamp: () => value("timestamp"), getBodyHash: () => value("body_hash") });
    const want = OAuth.getAuthorizationHeader(`https://${r.header.Host[0]}${r.target}`, r.method, r.body, value("consumer_key"), r.key);
    return [
      [parameters(r.header.Authorization[0]), decodeURIComponent(value("consumer_key")), decodeURIComponent(value("body_hash"))],
      [parameters(want), "consumer!1", hash],
    ];
  },
  kraken(r) {
    const nonce = new URLSearchParams(r.body).get("nonce");
    const client = Object.assign(new kraken({ apiKey: r.header["Api-Key"][0], secret: r.key }), { nonce: () => Number(nonce) });
    const { url, body, headers } = client.sign(r.target.split("/").pop(), "private", "POST", {});
    return [
      [r.target, r.body, r.header["Api-Sign"][0], nonce.length],
      [new URL(url).pathname, body, headers["API-Sign"], 13],
    ];
  },
  async kucoin(r) {
    kucoinConfig.setConfig({ authVersion: 2 });
    const time = Number(r.header["Kc-Api-Timestamp"][0]);
    const want = await at(time, "", () => kucoin.auth({ key: "k1", secret: r.key, passphrase: "horse" }, r.method, r.target, r.body));
    const names = ["KC-API-KEY", "KC-API-SIGN", "KC-API-TIMESTAMP", "KC-API-PASSPHRASE", "KC-API-KEY-VERSION"];
    const got = Object.fromEntries(Object.entries(r.header).map(([name, [value]]) => [name.toUpperCase(), value]));
    return [names.map((name) => got[name]), names.map((name) => String(want[name]))];
  },
  async ibm(r) {
    const request = {};
    const answer = { access_token: bearer(r), expires_in: 3600 };
    const want = await recorded((url) => new IamAuthenticator({ apikey: r.key, url }).authenticate(request), answer);
    const form = new URLSearchParams(want.body);
    form.delete("response_type"); // the page has none
    const [path, got] = r.grant.split(" ");
    const members = (f) => [...f].sort();
    return [
      [path, members(new URLSearchParams(got)), r.header.Authorization[0]],
      [want.url, members(form), request.headers.Authorization],
    ];
  },
  tc3(r) {
    const want = tencent.default.sign3({
      method: r.method,
      url: `https://${r.header.Host[0]}${r.target}`,
      payload: r.body && Buffer.from(r.body),
      timestamp: Number(r.header["X-Tc-Timestamp"][0]),
      service: r.set.service,
      secretId: r.set.secret_id,
      secretKey: r.set.secret_key,
      headers: { "Content-Type": r.header["Content-Type"]?.[0] },
    });
    return [r.header.Authorization[0], want];
  },
  alibaba(r) {
    const url = new URL(r.target, "https://x");
    const headers = Object.fromEntries(Object.entries(r.header).map(([name, values]) => [name, values[0]]));
    const hash = crypto.createHash("sha256").update(r.body).digest("hex");
    const request = { method: r.method, pathname: url.pathname, query: Object.fromEntries(url.searchParams), headers };
    const want = alibaba.default.getAuthorization(request, "ACS3-HMAC-SHA256", hash, r.set["your-access-key-id"], r.key);
    return [[r.header.Authorization[0], headers["X-Acs-Content-Sha256"]], [want, hash]];
  },
  edgegrid(r) {
    const value = (name) => r.header.Authorization[0].match(`${name}=([^;]+)`)[1];
    const { client_token, client_secret, access_token } = r.set;
    const request = { method: r.method, path: r.target, body: r.body };
    edgegrid.generateAuth(request, client_token, client_secret, access_token, `https://${r.header.Host[0]}`, 0, value("nonce"), value("timestamp"));
    return [r.header.Authorization[0], request.headers.Authorization];
  },
  ovh(r) {
    const client = ovh({ appKey: r.set.application_key, appSecret: r.set.application_secret, consumerKey: r.set.consumer_key });
    const [time] = r.header["X-Ovh-Timestamp"];
    const want = client.signRequest(r.method, `https://${r.header.Host[0]}${r.target}`, r.body || null, Number(time));
    return [r.header["X-Ovh-Signature"][0], want];
  },
};

const pairs = [];
for (const r of JSON.parse(await text(process.stdin))) {
  pairs.push(await judges[r.judge](r));
}
process.stdout.write(JSON.stringify(pairs));
