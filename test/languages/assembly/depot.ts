// Plugin depot_as authenticates requests to Depot, a made-up API that has a bit of everything. A login sends a digest of the
// password and the public half of a key that the host makes. It answers with a session, a workspace and a shared secret. Each
// request has the session in a cookie, the workspace in its path, and is signed with the secret and with the key. The API's
// nonces are part of what is signed.
//
// The plugin holds references in place of password, session, workspace, secret, nonces and signatures. The bytes stay in the host.

import { Host } from "@extism/as-pdk";
import {
  body, cache, cached, challenge, config, decode, done, drop, encode, exchange, failed, hexDigest, mac, publicKey, random, signSealed,
} from "./host";
import { member, pair, quote } from "./json";

// MARGIN is the time before the end of a session in which it is not used, in seconds.
const MARGIN: i64 = 60;

const DESCRIPTION = `{"abi":1,"type":"depot_as","version":"1.0.0","summary":"A session of Depot, with signed requests, in AssemblyScript.",
"uses":["token","cache","sign","body"],"fields":[
{"name":"url","kind":"url","required":true,"sinks":["token"],"doc":"URL of the API."},
{"name":"user","kind":"string","required":true,"sinks":["token","digest"],"doc":"Name of the user."},
{"name":"password","kind":"string","required":true,"sealed":true,"sinks":["digest"],"derived":["token"],"doc":"Password. Its digest is sent."},
{"name":"device_key","kind":"key","generate":true,"algorithm_field":"device_algorithm","purposes":["message"],"derived":["header"],
"doc":"Key of this device. If it is absent, the host makes one."},
{"name":"device_algorithm","kind":"string","enum":["EdDSA","ES256"],"default":"EdDSA","doc":"Algorithm of the key."}],
"answers":[
{"name":"session","from":"cookie:SESSION","kind":"sealed","sinks":["header"],"required":true},
{"name":"workspace","from":"json:/workspace","kind":"sealed","sinks":["path"],"required":true},
{"name":"secret","from":"json:/secret","kind":"sealed","sinks":["sign"],"derived":["header"],"required":true},
{"name":"expires_in","from":"json:/expires_in","kind":"integer","required":true}],
"challenge":{"statuses":[401],"keep":300,"answers":[
{"name":"nonce","from":"header:Depot-Nonce","kind":"sealed","sinks":["header","digest"],"keep":true},
{"name":"error","from":"header:Depot-Error","kind":"enum","enum":["use_nonce"]}]}}`;

export function describe(): i32 {
  return done(DESCRIPTION);
}

export function authenticate(): i32 {
  const known = challenge();
  if (member(known, "status") == "401" && member(known, "error") != "use_nonce" && !drop("session")) {
    return done('{"pass":true}'); // another session would not help
  }
  let session = cached("session");
  if (session === null) {
    const reply = logIn();
    const status = member(reply, "status");
    if (!status.startsWith("2")) return failed("the login was answered with " + status);
    session = [member(reply, "session"), member(reply, "workspace"), member(reply, "secret")].join(" ");
    const ttl = I64.parseInt(member(reply, "expires_in")) - MARGIN;
    if (ttl > 0) cache("session", session, ttl);
  }
  const parts = session.split(" ");

  // From here on the plugin knows its request, so it may use neither the cache nor an endpoint.
  const once = random(8);
  const message = ["depot/1", member(Host.inputString(), "method"), hexDigest("sha256", body()), once, member(known, "nonce")].join("\n");
  const tag = mac("HS256", decode("base64", parts[2]), message);
  const proof = signSealed("device_key", "message", message);
  return done(
    '{"headers":[' + pair("Depot-Once", once) + "," + pair("Depot-MAC", encode("base64", tag)) + "," +
    pair("Depot-Proof", encode("base64url", proof)) + '],"cookies":[' + pair("SESSION", parts[0]) +
    '],"path":[' + pair("{workspace}", parts[1]) + "]}",
  );
}

// logIn returns the host's reply to a login.
function logIn(): string {
  const user = config("user");
  const proof = hexDigest("sha256", user + ":" + config("password"));
  return exchange(
    '{"url":' + quote(config("url")) + ',"path":["sessions"],"json":{"user":' + quote(user) + ',"proof":' + quote(proof) +
    ',"device":' + publicKey("device_key", "jwk") + "}}",
  );
}
