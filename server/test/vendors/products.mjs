// Makes the credentials of requests with the vendors' own clients, at the times and with the nonces of Keywright's requests.
// It reads a JSON array of requests from stdin, and writes one of pairs: what Keywright sent, and what the client sends.
import crypto from "node:crypto";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { text } from "node:stream/consumers";
import { Spot } from "@binance/connector";
import { generateJwt } from "@coinbase/cdp-sdk/auth";
import { AlipaySdk } from "alipay-sdk";
import atlassian from "atlassian-jwt";
import { ApiTokenProvider } from "fireblocks-sdk/dist/src/api-token-provider.js";
import { compactVerify, decodeJwt, decodeProtectedHeader } from "jose";

const now = Date.now;
const uuid = crypto.randomUUID;

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

// recorded returns the request that f sends to a server.
async function recorded(f) {
  let request;
  const server = createServer(async (r, w) => {
    request = { url: r.url, headers: r.headers, body: await text(r) };
    w.end("{}");
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
};

const pairs = [];
for (const r of JSON.parse(await text(process.stdin))) {
  pairs.push(await judges[r.judge](r));
}
process.stdout.write(JSON.stringify(pairs));
