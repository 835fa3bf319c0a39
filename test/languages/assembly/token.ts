// Plugin as_token adds an access token that it requests with the client credentials grant, RFC 6749 section 4.4. It does the
// same as the built-in oauth_client_credentials, in another language and with the SDK for AssemblyScript.

import * as sdk from "../../../sdk/assemblyscript/keywright";

// MARGIN is the time before a token's expiry in which the token is not used, in seconds.
const MARGIN: i64 = 60;

const DESCRIPTION = `{"abi":1,"type":"as_token","version":"1.0.0","uses":["token","cache"],
"summary":"A bearer token, by AssemblyScript – not Go.","fields":[
{"name":"client_id","kind":"string","required":true,"sinks":["token"]},
{"name":"client_secret","kind":"string","required":true,"sealed":true,"sinks":["token"]},
{"name":"token_url","kind":"url","required":true,"sinks":["token"]}]}`;

export function describe(): i32 {
  return sdk.done(DESCRIPTION);
}

// validate checks that client_id is printable ASCII, RFC 6749 appendix A.1. A template is accepted.
export function validate(): i32 {
  const problems: sdk.Problem[] = [], id = sdk.literal("client_id");
  for (let i = 0; id !== null && i < id.length; i++) {
    const c = id.charCodeAt(i);
    if (c < 0x20 || c > 0x7e) {
      problems.push(new sdk.Problem("client_id", "only printable ASCII, RFC 6749 A.1"));
      break;
    }
  }
  return sdk.problems(problems);
}

export function authenticate(): i32 {
  const known = sdk.cached("access_token");
  if (known !== null) return sdk.mutate(sdk.bearer(known));

  const request = new sdk.TokenRequest(sdk.config("token_url"));
  request.form = [
    new sdk.Pair("grant_type", "client_credentials"),
    new sdk.Pair("client_id", sdk.config("client_id")),
    new sdk.Pair("client_secret", sdk.config("client_secret")),
  ];
  // The secret in the request and the token in the answer are sealed values. The bytes stay in the host.
  const token = sdk.requestToken(request);
  if (token.failure != "") return sdk.fail(token.failure);
  if (token.tokenType != "" && token.tokenType != "bearer") return sdk.fail("the token is of no use as a bearer token");
  if (token.expiresIn > MARGIN) sdk.cache("access_token", token.accessToken, token.expiresIn - MARGIN);
  return sdk.mutate(sdk.bearer(token.accessToken));
}
