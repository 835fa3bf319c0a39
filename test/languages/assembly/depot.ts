// Plugin depot_as authenticates requests to Depot, a made-up API that has a bit of everything. A login sends a digest of the
// password and the public half of a key that the host makes. It answers with a session, a workspace, a shared secret and the URL of the API. Each
// request has the session in a cookie, the workspace in its path, and is signed with the secret and with the key. The API's
// nonces are part of what is signed.
//
// The plugin holds references in place of password, session, workspace, secret, nonces and signatures. The bytes stay in the host.

import * as sdk from "../../../sdk/assemblyscript/keywright";

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
{"name":"api","from":"json:/api","kind":"sealed","sinks":["url"],"required":true},
{"name":"secret","from":"json:/secret","kind":"sealed","sinks":["sign"],"derived":["header"],"required":true},
{"name":"expires_in","from":"json:/expires_in","kind":"integer","required":true}],
"challenge":{"statuses":[401],"keep":300,"answers":[
{"name":"nonce","from":"header:Depot-Nonce","kind":"sealed","sinks":["header","digest"],"keep":true},
{"name":"error","from":"header:Depot-Error","kind":"enum","enum":["use_nonce"]}]}}`;

export function describe(): i32 {
  return sdk.done(DESCRIPTION);
}

export function authenticate(): i32 {
  const known = sdk.challenge();
  if (known.status == 401 && known.get("error") != "use_nonce" && !sdk.drop("session")) {
    const pass = new sdk.Mutation();
    pass.pass = true; // another session would not help
    return sdk.mutate(pass);
  }
  let session = sdk.cached("session");
  if (session === null) {
    const reply = logIn();
    if (reply.status / 100 != 2) return sdk.fail("the login was answered with " + reply.status.toString());
    session = [reply.get("session"), reply.get("workspace"), reply.get("secret"), reply.get("api")].join(" ");
    const seconds = sdk.integer(reply.get("expires_in")) - MARGIN;
    if (seconds > 0) sdk.cache("session", session, seconds);
  }
  const parts = session.split(" ");

  // From here on the plugin knows its request, so it may use neither the cache nor an endpoint.
  const once = sdk.random(8), body = sdk.hex(sdk.digest(sdk.DIGEST_SHA256, sdk.body()));
  const message = ["depot/1", sdk.request().method, body, once, known.get("nonce")].join("\n");
  const mac = sdk.mac(sdk.MAC_SHA256, sdk.decode("base64", parts[2]), message);
  const proof = sdk.signSealed("device_key", sdk.FOR_MESSAGE, message);
  const m = new sdk.Mutation();
  m.headers = [new sdk.Pair("Depot-Once", once), new sdk.Pair("Depot-MAC", sdk.base64(mac)), new sdk.Pair("Depot-Proof", sdk.base64URL(proof))];
  m.cookies = [new sdk.Pair("SESSION", parts[0])];
  m.path = [new sdk.Pair("{workspace}", parts[1])];
  m.url = parts[3];
  return sdk.mutate(m);
}

// logIn returns the answers of a login.
function logIn(): sdk.Answers {
  const user = sdk.config("user"), login = new sdk.Members();
  login.string("user", user);
  login.string("proof", sdk.hex(sdk.digest(sdk.DIGEST_SHA256, user + ":" + sdk.config("password"))));
  login.raw("device", sdk.publicKey("device_key", sdk.JWK));
  const request = new sdk.Exchange(sdk.config("url"));
  request.path = ["sessions"];
  request.json = login.json();
  return sdk.exchange(request);
}
