// Plugin probe calls what the other plugins of these tests do not, and sends in headers what it has got.
import * as sdk from "../../../sdk/assemblyscript/keywright";

export function describe(): i32 {
  return sdk.done(`{
    "abi": 1, "type": "probe", "version": "1.0.0", "summary": "What the other plugins do not call.", "uses": ["secret", "token", "sign", "body", "turn"],
    "fields": [
      {"name": "token_url", "kind": "url", "required": true, "sinks": ["token"]},
      {"name": "secret", "kind": "string", "required": true, "sealed": true, "sinks": ["token", "header"]},
      {"name": "key", "kind": "key", "required": true, "algorithm_field": "algorithm", "sinks": ["sign"], "derived": ["header", "query"]},
      {"name": "algorithm", "kind": "string", "enum": ["HS256"], "default": "HS256"},
      {"name": "signer", "kind": "key", "required": true, "algorithm_field": "signer_algorithm", "purposes": ["jws"], "derived": ["header"]},
      {"name": "signer_algorithm", "kind": "string", "enum": ["ES256"], "default": "ES256"},
      {"name": "texts", "kind": "object"},
      {"name": "parts", "kind": "object"},
      {"name": "absent", "kind": "string"}
    ]
  }`);
}

function texts(pairs: sdk.Pair[]): string {
  let all = "";
  for (let i = 0; i < pairs.length; i++) all += pairs[i].name + "=" + pairs[i].value + "\n";
  return sdk.base64(all);
}

export function authenticate(): i32 {
  const count = sdk.counter(7);
  const r = new sdk.TokenRequest(sdk.config("token_url"));
  r.form = [new sdk.Pair("scope", "a b"), new sdk.Pair("secret", sdk.secret("probe"))];
  r.headers = [new sdk.Pair("X-Probe", "1")];
  r.extra = ["instance", "unknown"];
  const token = sdk.requestToken(r);
  if (token.failure != "") return sdk.fail(token.failure);
  const claims = new sdk.Members();
  claims.string("iss", '"me"');
  claims.string("exp", (sdk.now() + 60).toString());
  claims.raw("list", "[1,2]");
  claims.flag("flag", true);
  claims.flag("none", false);
  claims.optional("empty", "");
  const jwt = new sdk.JWT("key", claims.json());
  jwt.header = '{"kid":"k1"}';
  jwt.integers = ["exp"];
  const jws = new sdk.JWS("signer", sdk.body()), attached = new sdk.JWS("signer", "{}");
  jws.header = '{"iat":"7"}';
  jws.crit = jws.integers = ["iat"];
  jws.unencoded = attached.attached = true;
  let list = "";
  const each = new sdk.Each(' [1 , {"a":["]",{}]}, "x,\\"y" ,[],null] '), object = sdk.config("texts");
  while (each.next()) list += each.value + ";";
  const decoded = sdk.text('"\\ud83d\\ude00\\u00e9\\u20ac\\u0041\\/\\\\\\"\\b\\f\\n\\r\\t \\ud83d \\u0007"');

  const form = sdk.bodyForm(), request = sdk.request(), none = sdk.headerValue(request.headers, "X-None"), many = sdk.headerValue(request.headers, "x-mANY");
  sdk.debug("debug é");
  sdk.info("info");
  sdk.warn("warn");
  const m = new sdk.Mutation(), added = sdk.header("x-a", "1");
  added.query = [new sdk.Pair("b", "&")];
  added.form = [new sdk.Pair("f", "&")];
  m.headers = [
    new sdk.Pair("Authorization", "Bearer " + token.accessToken), new sdk.Pair("X-JWT", sdk.signJWT(jwt)),
    new sdk.Pair("X-JWS", sdk.signJWS(jws)), new sdk.Pair("X-Attached", sdk.signJWS(attached)),
    new sdk.Pair("X-Extra", sdk.get(token.extra, "instance")), new sdk.Pair("X-Unknown", sdk.base64(sdk.get(token.extra, "unknown"))),
    new sdk.Pair("X-Token", [token.tokenType, token.expiresIn.toString(), (-sdk.clockOffset() - i64.MAX_VALUE).toString(), count.toString()].join(" ")),
    new sdk.Pair("X-Texts", texts(sdk.pairs(object))), new sdk.Pair("X-List", sdk.base64(list)), new sdk.Pair("X-Decoded", sdk.base64(decoded)),
    new sdk.Pair("X-Form", texts(form === null ? [] : form)), new sdk.Pair("X-Many", many === null ? "" : many), new sdk.Pair("X-None", none === null ? "no" : none),
    new sdk.Pair("X-Length", request.contentLength.toString()), new sdk.Pair("X-Millis", sdk.nowMillis().toString()),
    new sdk.Pair("X-URL", request.split().join(" ")), new sdk.Pair("X-Absent", sdk.config("absent") == "" ? "absent" : "there"),
    new sdk.Pair("X-Encoded", [sdk.base32("é?"), sdk.hexUpper("é?"), sdk.percent("é?"), sdk.formEncode("é? "), sdk.quoted('e"'), sdk.base64URL("?>?")].join(" ")),
    new sdk.Pair("X-Composed", sdk.compose("{scheme} {target}") + " " + sdk.composeLater("{header:X-A} {query} {v} {body|sha256|hex}", added, [new sdk.Pair("v", '{"}')])),
    new sdk.Pair("X-Object", sdk.base64(sdk.composeObject(' {"a": ["{v}", 1, {"{v}": "\\\\{\\"é"}, []], "b": null} ', [new sdk.Pair("v", "V")]))),
    new sdk.Pair("X-Parts", texts(sdk.parts("parts"))),
  ];
  m.query = [new sdk.Pair("q", "a&b"), new sdk.Pair("jwt", sdk.signQueryJWT(jwt))];
  return sdk.mutate(m);
}
