// Plugin as_token adds an access token that it requests with the client credentials grant, RFC 6749 section 4.4. It does the
// same as the built-in oauth_client_credentials, in another language and with nothing but ABI.md and the Extism PDK.

import { cache, cached, config, done, failed, requestToken } from "./host";
import { member, quote } from "./json";

// MARGIN is the time before a token's expiry in which the token is not used, in seconds.
const MARGIN: i64 = 60;

const DESCRIPTION = `{"abi":1,"type":"as_token","version":"1.0.0","uses":["token","cache"],
"summary":"A bearer token, by AssemblyScript – not Go.","fields":[
{"name":"client_id","kind":"string","required":true,"sinks":["token"]},
{"name":"client_secret","kind":"string","required":true,"sealed":true,"sinks":["token"]},
{"name":"token_url","kind":"url","required":true,"sinks":["token"]}]}`;

export function describe(): i32 {
  return done(DESCRIPTION);
}

// validate checks that client_id is printable ASCII, RFC 6749 appendix A.1. For a template, config returns "", which is
// accepted.
export function validate(): i32 {
  const id = config("client_id");
  for (let i = 0; i < id.length; i++) {
    const c = id.charCodeAt(i);
    if (c < 0x20 || c > 0x7e) return failed("client_id: only printable ASCII, RFC 6749 A.1");
  }
  return 0;
}

export function authenticate(): i32 {
  const known = cached("access_token");
  if (known !== null) return done(bearer(known));

  const reply = requestToken(
    '{"url":' + quote(config("token_url")) +
    ',"form":[{"name":"grant_type","value":"client_credentials"},{"name":"client_id","value":' + quote(config("client_id")) +
    '},{"name":"client_secret","value":' + quote(config("client_secret")) + "}]}",
  );
  // The secret in the request and the token in the reply are sealed values. The bytes stay in the host.
  const token = member(reply, "access_token");
  const status = member(reply, "status");
  if (!status.startsWith("2") || token == "") {
    return failed("the token endpoint answered " + status + " " + member(reply, "error"));
  }
  const kind = member(reply, "token_type");
  if (kind != "" && kind != "bearer") return failed("the token is of no use as a bearer token");

  const life = member(reply, "expires_in");
  if (life != "") {
    const ttl = I64.parseInt(life) - MARGIN;
    if (ttl > 0) cache("access_token", token, ttl);
  }
  return done(bearer(token));
}

function bearer(token: string): string {
  return '{"headers":[{"name":"Authorization","value":' + quote("Bearer " + token) + "}]}";
}
