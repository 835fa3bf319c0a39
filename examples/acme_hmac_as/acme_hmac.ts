// Plugin acme_hmac in AssemblyScript. It is the same auth type as examples/acme_hmac, which says what is signed.
import * as sdk from "../../sdk/assemblyscript/keywright";

export function describe(): i32 {
  return sdk.done(`{
    "abi": 1,
    "type": "acme_hmac",
    "version": "1.0.0",
    "summary": "An HMAC over method, path, time and body, for Acme's API.",
    "uses": ["sign", "body"],
    "fields": [
      {"name": "key_id", "kind": "string", "required": true, "sinks": ["header"], "doc": "Which key the request is signed with."},
      {"name": "secret", "kind": "string", "required": true, "sealed": true, "sinks": ["sign"], "derived": ["header"], "doc": "The shared secret."}
    ]
  }`);
}

const NO_TOKEN = "has a character that is neither a letter nor a digit nor one of !#$%&'*+-.^_`|~";

export function validate(): i32 {
  const problems: sdk.Problem[] = [], keyID = sdk.literal("key_id");
  if (keyID !== null && !sdk.isToken(keyID)) problems.push(new sdk.Problem("key_id", NO_TOKEN));
  return sdk.problems(problems);
}

export function authenticate(): i32 {
  const keyID = sdk.config("key_id");
  if (!sdk.isToken(keyID)) return sdk.fail("key_id " + NO_TOKEN); // it came from a template
  const message = sdk.compose("{method}\n{target}\n{timestamp}\n{body|sha256|hex}");
  const signature = sdk.hex(sdk.mac(sdk.MAC_SHA256, sdk.config("secret"), message));
  return sdk.mutate(sdk.header("Authorization", sdk.compose("ACME-HMAC-SHA256 key={config:key_id}, time={timestamp}, signature=") + signature));
}
