// Plugin wise sends a token, and signs the one-time text with which Wise refuses a request that needs strong customer authentication.
import * as sdk from "../../../sdk/assemblyscript/keywright";

export function describe(): i32 {
  return sdk.done(`{
    "abi": 1, "type": "wise", "version": "1.0.0", "summary": "A token, and a signature of a one-time text.", "uses": ["sign"],
    "fields": [
      {"name": "token", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]},
      {"name": "private_key", "kind": "key", "required": true, "algorithm_field": "algorithm", "purposes": ["message"], "derived": ["header"]},
      {"name": "algorithm", "kind": "string", "enum": ["RS256"], "default": "RS256"}
    ],
    "challenge": {"statuses": [403], "answers": [
      {"name": "code", "from": "header:x-2fa-approval", "kind": "sealed", "sinks": ["header", "digest"], "pattern": "[0-9a-f-]{36}"}
    ]}
  }`);
}

export function authenticate(): i32 {
  const refusal = sdk.challenge(), code = refusal.get("code"), m = sdk.bearer(sdk.config("token"));
  if (refusal.status != 0 && code == "") m.headers = []; // refused for another reason
  m.pass = refusal.status != 0 && code == "";
  if (code != "") {
    m.headers.push(new sdk.Pair("X-2FA-Approval", code));
    m.headers.push(new sdk.Pair("X-Signature", sdk.base64(sdk.signSealed("private_key", "message", code))));
  }
  return sdk.mutate(m);
}
