// Plugin grant keeps a grant that users give in a browser: a refresh token that may be used once.
import * as sdk from "../../../sdk/assemblyscript/keywright";

export function describe(): i32 {
  return sdk.done(`{
    "abi": 1, "type": "grant", "version": "1.0.0", "summary": "A grant of a user.", "uses": ["token", "cache", "state"], "consent": true,
    "fields": [
      {"name": "authorization_url", "kind": "url", "required": true},
      {"name": "token_url", "kind": "url", "required": true},
      {"name": "client_id", "kind": "string", "required": true},
      {"name": "par_url", "kind": "url"},
      {"name": "secret", "kind": "string", "sealed": true, "sinks": ["token"]}
    ],
    "answers": [
      {"name": "refresh_token", "from": "json:/refresh_token", "kind": "sealed", "sinks": ["token"], "required": true, "state": "refresh_token"},
      {"name": "access_token", "from": "json:/access_token", "kind": "sealed", "sinks": ["header"], "required": true},
      {"name": "expires_in", "from": "json:/expires_in", "kind": "integer"}
    ],
    "state": [{"name": "refresh_token"}]
  }`);
}

export function consent(): i32 {
  const c = new sdk.Consent(sdk.config("authorization_url"));
  c.query = [new sdk.Pair("client_id", sdk.config("client_id")), new sdk.Pair("scope", 'read "all" & é')];
  c.issuer = "https://login.test";
  c.issRequired = true;
  const url = sdk.config("par_url");
  if (url != "") {
    const push = new sdk.Push(url);
    push.form = [new sdk.Pair("client_secret", sdk.config("secret"))];
    push.headers = [new sdk.Pair("X-Version", "2")];
    c.push = push;
  }
  return sdk.ask(c);
}

function ask(form: sdk.Pair[]): sdk.Answers {
  const x = new sdk.Exchange(sdk.config("token_url"));
  x.form = form;
  x.headers = [new sdk.Pair("Accept", "application/json")];
  return sdk.exchange(x);
}

function refused(reply: sdk.Answers): string {
  return reply.status == 200 ? "" : "the token endpoint answered " + reply.status.toString();
}

export function connect(): i32 {
  const code = sdk.code();
  const failure = refused(ask([
    new sdk.Pair("grant_type", "authorization_code"), new sdk.Pair("code", code.code),
    new sdk.Pair("code_verifier", code.verifier), new sdk.Pair("redirect_uri", code.redirectURI),
  ]));
  return failure != "" ? sdk.fail(failure) : 0;
}

export function authenticate(): i32 {
  let token = sdk.cached("access_token");
  if (token === null) {
    const refresh = sdk.state("refresh_token");
    if (refresh === null) return sdk.fail("there is no refresh token");
    const reply = ask([new sdk.Pair("grant_type", "refresh_token"), new sdk.Pair("refresh_token", refresh)]);
    const failure = refused(reply);
    if (failure != "") return sdk.fail(failure);
    token = reply.get("access_token");
    sdk.cache("access_token", token, sdk.integer(reply.get("expires_in")));
  }
  return sdk.mutate(sdk.bearer(token));
}

export function disconnect(): i32 {
  const refresh = sdk.state("refresh_token"), x = new sdk.Exchange(sdk.config("token_url"));
  x.method = "DELETE";
  x.path = ["grants", "a/b"];
  x.query = [new sdk.Pair("all", "1")];
  x.json = '{"token":' + sdk.quote(refresh === null ? "" : refresh) + "}";
  sdk.exchange(x);
  return 0;
}
