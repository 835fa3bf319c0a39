// @ts-nocheck: editors take this for TypeScript, and it is AssemblyScript.
// The AssemblyScript SDK for Keywright plugins: one file, without the Extism PDK. README.md beside it shows a plugin, and ABI.md is the
// contract. Functions have the names of the Go SDK.
//
// A plugin never sees a credential. In place of a secret, a token or a signature it gets a sealed value: a string that refers to the
// bytes. It can put that string into others, and may not cut or change it. If a host function fails, it ends the call and does
// not return.

// Constants of the contract. go generate ./tools/constants writes them.
export const DIGEST_MD5: string = "md5";
export const DIGEST_SHA1: string = "sha1";
export const DIGEST_SHA256: string = "sha256";
export const DIGEST_SHA384: string = "sha384";
export const DIGEST_SHA512: string = "sha512";
export const DIGEST_SHA512256: string = "sha512_256";
export const MAC_SHA1: string = "HS1";
export const MAC_SHA256: string = "HS256";
export const MAC_SHA384: string = "HS384";
export const MAC_SHA512: string = "HS512";
export const FOR_JWT: string = "jwt";
export const FOR_HTTP_SIGNATURE: string = "http_signature";
export const FOR_MESSAGE: string = "message";
export const FOR_JWS: string = "jws";
export const RS1: string = "RS1";
export const JWK: string = "jwk";
export const JWK_THUMBPRINT: string = "jwk_thumbprint";
export const X5T: string = "x5t#S256";
export const X5C: string = "x5c";
export const ANSWER_SEALED: string = "sealed";
export const ANSWER_INTEGER: string = "integer";
export const ANSWER_TIME: string = "time";
export const ANSWER_ENUM: string = "enum";
export const ABI: i64 = 1;
export const STRING: string = "string";
export const URL: string = "url";
export const INTEGER: string = "integer";
export const BOOLEAN: string = "boolean";
export const OBJECT: string = "object";
export const KEY: string = "key";
export const CERTIFICATE: string = "certificate";
export const TO_HEADER: string = "header";
export const TO_QUERY: string = "query";
export const TO_TOKEN: string = "token";
export const TO_CLAIM: string = "claim";
export const TO_SIGN: string = "sign";
export const TO_DIGEST: string = "digest";
export const TO_PATH: string = "path";
export const TO_BODY: string = "body";
export const TO_URL: string = "url";
export const USES_SECRET: string = "secret";
export const USES_TOKEN: string = "token";
export const USES_CACHE: string = "cache";
export const USES_SIGN: string = "sign";
export const USES_BODY: string = "body";
export const USES_STATE: string = "state";
export const USES_TURN: string = "turn";
export const MAX_RANDOM: i64 = 64;
export const MAX_FIELDS: i64 = 256;
export const MAX_ALIASES: i64 = 8;
export const MAX_ABOUT: i64 = 512;
export const MAX_PATTERN: i64 = 256;
export const MAX_ANSWERS: i64 = 16;
export const MAX_PLAIN_ANSWERS: i64 = 8;
export const MAX_STATES: i64 = 4;
export const MAX_ENUM: i64 = 32;
// End of the constants.

// Host functions, as ABI.md has them. Parameters and results are offsets of memory blocks unless they have another name or type.
@external("extism:host/env", "config_get") declare function config_get(name: u64): u64;
@external("extism:host/env", "input_offset") declare function input_offset(): u64;
@external("extism:host/env", "output_set") declare function output_set(block: u64, length: u64): void;
@external("extism:host/env", "error_set") declare function error_set(block: u64): void;
@external("extism:host/env", "log_debug") declare function log_debug(block: u64): void;
@external("extism:host/env", "log_info") declare function log_info(block: u64): void;
@external("extism:host/env", "log_warn") declare function log_warn(block: u64): void;
@external("extism:host/env", "log_error") declare function log_error(block: u64): void;
@external("extism:host/user", "block_new") declare function block_new(address: usize, length: u32): u64;
@external("extism:host/user", "block_read") declare function block_read(block: u64, address: usize, room: u32): u64;
@external("extism:host/user", "time_now") declare function time_now(): i64;
@external("extism:host/user", "time_millis") declare function time_millis(): i64;
@external("extism:host/user", "clock_offset") declare function clock_offset(): i64;
@external("extism:host/user", "counter") declare function host_counter(floor: i64): i64;
@external("extism:host/user", "random") declare function host_random(bytes: i64): u64;
@external("extism:host/user", "secret_get") declare function secret_get(name: u64): u64;
@external("extism:host/user", "token_request") declare function token_request(request: u64): u64;
@external("extism:host/user", "exchange") declare function host_exchange(request: u64): u64;
@external("extism:host/user", "cache_get") declare function cache_get(key: u64): u64;
@external("extism:host/user", "cache_set") declare function cache_set(key: u64, value: u64, seconds: i64): void;
@external("extism:host/user", "cache_drop") declare function cache_drop(key: u64): u64;
@external("extism:host/user", "state_get") declare function state_get(name: u64): u64;
@external("extism:host/user", "compose") declare function host_compose(template: u64, composition: u64): u64;
@external("extism:host/user", "challenge") declare function host_challenge(): u64;
@external("extism:host/user", "jwt_sign") declare function jwt_sign(request: u64): u64;
@external("extism:host/user", "jws_sign") declare function jws_sign(request: u64): u64;
@external("extism:host/user", "encode") declare function host_encode(format: u64, text: u64): u64;
@external("extism:host/user", "decode") declare function host_decode(format: u64, text: u64): u64;
@external("extism:host/user", "digest") declare function host_digest(algorithm: u64, data: u64): u64;
@external("extism:host/user", "mac") declare function host_mac(hash: u64, key: u64, data: u64): u64;
@external("extism:host/user", "sign_sealed") declare function sign_sealed(field: u64, purpose: u64, data: u64): u64;
@external("extism:host/user", "public_key") declare function public_key(field: u64, form: u64): u64;
@external("extism:host/user", "body") declare function host_body(): u64;
@external("extism:host/user", "body_form") declare function body_form(): u64;
@external("extism:host/user", "sign") declare function host_sign(field: u64, data: u64): u64;
@external("extism:host/user", "reveal") declare function host_reveal(value: u64): u64;

// Bytes are bytes or a text that stay in the host, in a memory block. Functions that take data take Bytes and strings.
export class Bytes {
  constructor(public block: u64) {}
  // toString returns the text. A sealed value is one. Other bytes need not be UTF-8, and are not text before hex or base64.
  toString(): string {
    return take(this.block);
  }
}

// give returns a memory block with a string or Bytes.
function give<T>(value: T): u64 {
  if (value instanceof Bytes) return value.block;
  if (!isString<T>()) ERROR("only a string or Bytes can be given to the host");
  const text = changetype<string>(value), ascii = changetype<usize>(new ArrayBuffer(text.length));
  if (copyASCII<u16, u8>(changetype<usize>(text), ascii, text.length)) return block_new(ascii, text.length);
  const bytes = String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE);
  return block_new(changetype<usize>(bytes), bytes.byteLength);
}

function take(block: u64): string {
  const bytes = new ArrayBuffer(<i32>block_read(block, 0, 0)), length = bytes.byteLength;
  block_read(block, changetype<usize>(bytes), length);
  const text = changetype<string>(__new(<usize>length << 1, idof<string>()));
  return copyASCII<u8, u16>(changetype<usize>(bytes), changetype<usize>(text), length) ? text : String.UTF8.decode(bytes);
}

// copyASCII copies characters from one width to another, and reports whether all are ASCII. It costs less fuel than String.UTF8.
function copyASCII<From, To>(from: usize, to: usize, length: i32): bool {
  let all: From = 0;
  for (let i: usize = 0; i < <usize>length; i++) {
    const c = load<From>(from + i * sizeof<From>());
    all |= c;
    store<To>(to + i * sizeof<To>(), <To>c);
  }
  return all < 0x80;
}

// maybe returns the text of a memory block, or null if there is none.
function maybe(block: u64): string | null {
  return block == 0 ? null : take(block);
}

// abort ends the call, as a panic does. The host logs why. asconfig.json puts it in the place of AssemblyScript's own, an import that the
// host does not have.
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log_error(give((message ? message : "aborted") + " at " + (file ? file : "") + ":" + line.toString() + ":" + column.toString()));
  unreachable();
}

// What an export returns.

// done sets the output of an export, such as a description, and returns success. fail returns failure with a message.
export function done(document: string): i32 {
  output_set(give(document), String.UTF8.byteLength(document));
  return 0;
}
export function fail(message: string): i32 {
  error_set(give(message));
  return 1;
}

// Pair is the name and the value of a header, a query parameter, a form field or an answer.
export class Pair {
  constructor(public name: string, public value: string) {}
}

// Mutation has the changes to the request. mutate is the end of authenticate.
export class Mutation {
  headers: Pair[] = [];
  query: Pair[] = [];
  cookies: Pair[] = [];
  path: Pair[] = [];
  form: Pair[] = [];
  url: string = ""; // a sealed value with the sink url
  pass: bool = false;
}
export function mutate(m: Mutation): i32 {
  const o = new Members();
  o.pairs("headers", m.headers);
  o.pairs("query", m.query);
  o.pairs("cookies", m.cookies);
  o.pairs("path", m.path);
  o.pairs("form", m.form);
  o.optional("url", m.url);
  o.flag("pass", m.pass);
  return done(o.json());
}

// header and query return a mutation with one header or query parameter, and bearer one with a token in the Authorization header.
export function header(name: string, value: string): Mutation {
  const m = new Mutation();
  m.headers.push(new Pair(name, value));
  return m;
}
export function query(name: string, value: string): Mutation {
  const m = new Mutation();
  m.query.push(new Pair(name, value));
  return m;
}
export function bearer(token: string): Mutation {
  return header("Authorization", "Bearer " + token);
}

// Push says how an authorization request is pushed (RFC 9126).
export class Push {
  form: Pair[] = [];
  headers: Pair[] = [];
  constructor(public url: string) {}
}

// Consent is the page to which a user's browser goes. ask is the end of consent.
export class Consent {
  query: Pair[] = [];
  issuer: string = "";
  issRequired: bool = false;
  codeParameter: string = "";
  noPKCE: bool = false;
  push: Push | null = null;
  constructor(public url: string) {}
}
export function ask(c: Consent): i32 {
  const o = new Members();
  o.string("url", c.url);
  o.pairs("query", c.query);
  o.optional("issuer", c.issuer);
  o.flag("iss_required", c.issRequired);
  o.optional("code_parameter", c.codeParameter);
  o.flag("no_pkce", c.noPKCE);
  const p = c.push;
  if (p !== null) {
    const push = new Members();
    push.string("url", p.url);
    push.pairs("form", p.form);
    push.pairs("headers", p.headers);
    o.raw("push", push.json());
  }
  return done(o.json());
}

// Problem is an error in a field. problems is the end of validate: it fails if there are any.
export class Problem {
  constructor(public field: string, public message: string) {}
}
export function problems(list: Problem[]): i32 {
  let lines = "";
  for (let i = 0; i < list.length; i++) lines += (i > 0 ? "\n" : "") + list[i].field + ": " + list[i].message;
  return lines == "" ? 0 : fail(lines);
}

// What a plugin calls. The comments name the group that the description must have in uses.

// config returns the rendered value of a field, or "" if it is absent. literal is for validate: it returns null unless the value is
// literal.
export function config(name: string): string {
  return take(config_get(give(name)));
}

// first returns the value of the first of some fields that is not empty, or "".
export function first(names: string[]): string {
  for (let i = 0; i < names.length; i++) {
    const value = config(names[i]);
    if (value != "") return value;
  }
  return "";
}
export function literal(name: string): string | null {
  return maybe(config_get(give(name)));
}

// secret returns the sealed value of a secret that the configuration names: secret.
export function secret(name: string): string {
  return take(secret_get(give(name)));
}

// now returns Unix seconds, and nowMillis milliseconds. random returns random bytes in hex, and counter a number that only rises: turn.
export function now(): i64 {
  return time_now();
}
export function nowMillis(): i64 {
  return time_millis();
}
export function clockOffset(): i64 {
  return clock_offset();
}
export function counter(floor: i64): i64 {
  return host_counter(floor);
}
export function random(bytes: i64): string {
  return take(host_random(bytes));
}

export function debug(line: string): void {
  log_debug(give(line));
}
export function info(line: string): void {
  log_info(give(line));
}
export function warn(line: string): void {
  log_warn(give(line));
}

// cached returns null on a miss. drop reports whether a new value may help: cache.
export function cached(key: string): string | null {
  return maybe(cache_get(give(key)));
}
export function cache(key: string, value: string, seconds: i64): void {
  cache_set(give(key), give(value), seconds);
}

// cacheToken stores a token until a minute before it ends. If its lifetime in seconds is not longer, or not known and so 0, it stores
// nothing and logs a warning: cache.
export function cacheToken(key: string, token: string, lifetime: i64): void {
  if (lifetime > 60) cache(key, token, lifetime - 60);
  else warn("the token is not cached: it has no lifetime above 60 seconds");
}
export function drop(key: string): bool {
  return cache_drop(give(key)) != 0;
}

// state returns a state of the grant, or null, and takes the turn of the grant. The next exchange uses it: state.
export function state(name: string): string | null {
  return maybe(state_get(give(name)));
}

// encode and the functions below it return text. It is sealed if the data holds a sealed value.
export function encode<T>(format: string, data: T): string {
  return take(host_encode(give(format), give(data)));
}
export function base64<T>(data: T): string {
  return encode("base64", data);
}
export function base64URL<T>(data: T): string {
  return encode("base64url", data);
}
export function base32<T>(data: T): string {
  return encode("base32", data);
}
export function hex<T>(data: T): string {
  return encode("hex", data);
}
export function hexUpper<T>(data: T): string {
  return encode("hex_upper", data);
}
export function percent<T>(data: T): string {
  return encode("percent", data);
}
export function formEncode<T>(data: T): string {
  return encode("form", data);
}
export function quoted<T>(data: T): string {
  return encode("quoted", data);
}

// The results are bytes, and must be encoded before they are sent. mac, signSealed and publicKey: sign.
export function decode(format: string, text: string): Bytes {
  return new Bytes(host_decode(give(format), give(text)));
}
export function digest<T>(algorithm: string, data: T): Bytes {
  return new Bytes(host_digest(give(algorithm), give(data)));
}
export function mac<K, T>(hash: string, key: K, data: T): Bytes {
  return new Bytes(host_mac(give(hash), give(key), give(data)));
}
export function signSealed<T>(field: string, purpose: string, data: T): Bytes {
  return new Bytes(sign_sealed(give(field), give(purpose), give(data)));
}
export function publicKey(field: string, form: string): string {
  return take(public_key(give(field), give(form)));
}

// sign needs the grant sign_raw, and reveal the grant reveal.
export function sign<T>(field: string, data: T): Bytes {
  return new Bytes(host_sign(give(field), give(data)));
}
export function reveal(value: string): Bytes {
  return new Bytes(host_reveal(give(value)));
}

// JWT is an unsigned JWT. Header and claims are JSON objects. signJWT signs it for a header of the request, signQueryJWT for its query, and
// signAssertion for a token request: sign.
export class JWT {
  header: string = "";
  integers: string[] = [];
  constructor(public key: string, public claims: string) {}
}
export function signJWT(j: JWT): string {
  return signFor("header", j);
}
export function signQueryJWT(j: JWT): string {
  return signFor("query", j);
}
export function signAssertion(j: JWT): string {
  return signFor("token", j);
}
function signFor(sink: string, j: JWT): string {
  const o = new Members();
  o.string("key", j.key);
  o.string("for", sink);
  if (j.header != "") o.raw("header", j.header);
  o.raw("claims", j.claims);
  o.strings("integers", j.integers);
  return take(jwt_sign(give(o.json())));
}

// JWS is a signature to make. header is a JSON object, and crit names members of it. signJWS returns the JWS, without its payload unless
// that is attached: sign.
export class JWS {
  header: string = "";
  crit: string[] = [];
  unencoded: bool = false;
  attached: bool = false;
  integers: string[] = [];
  constructor(public key: string, public payload: string) {}
}
export function signJWS(j: JWS): string {
  const o = new Members();
  o.string("key", j.key);
  if (j.header != "") o.raw("header", j.header);
  o.strings("crit", j.crit);
  o.flag("unencoded", j.unencoded);
  o.string("payload", j.payload);
  o.flag("attached", j.attached);
  o.strings("integers", j.integers);
  return take(jws_sign(give(o.json())));
}

// Token is the answer to a token request. failure is "" if there is a token, and else says what the endpoint answered. expiresIn is 0 if it
// is not known.
export class Token {
  accessToken: string = "";
  tokenType: string = "";
  scope: string = "";
  failure: string = "";
  expiresIn: i64 = 0;
  extra: Pair[] = [];
}
export class TokenRequest {
  form: Pair[] = [];
  headers: Pair[] = [];
  extra: string[] = [];
  constructor(public url: string) {}
}

// requestToken requests a token: token.
export function requestToken(r: TokenRequest): Token {
  const o = new Members();
  o.string("url", r.url);
  o.pairs("form", r.form);
  o.pairs("headers", r.headers);
  o.strings("extra", r.extra);
  const t = new Token(), each = new Each(take(token_request(give(o.json()))));
  let status = "", error = "";
  while (each.next()) {
    if (each.name == "status") status = each.value;
    else if (each.name == "access_token") t.accessToken = text(each.value);
    else if (each.name == "token_type") t.tokenType = text(each.value);
    else if (each.name == "expires_in") t.expiresIn = integer(each.value);
    else if (each.name == "scope") t.scope = text(each.value);
    else if (each.name == "error") error = " (" + text(each.value) + ")";
    else if (each.name == "extra") t.extra = pairs(each.value);
  }
  if (status.length != 3 || !status.startsWith("2")) t.failure = "the token endpoint answered " + status + error;
  return t;
}

// Answers has parts of an answer, by the names of the description. status is 0 in a challenge that is none.
export class Answers {
  status: i64 = 0;
  count: i64 = 0;
  clockChange: i64 = 0;
  answers: Pair[] = [];
  constructor(reply: string) {
    const each = new Each(reply);
    while (each.next()) {
      if (each.name == "status") this.status = integer(each.value);
      else if (each.name == "count") this.count = integer(each.value);
      else if (each.name == "clock_change") this.clockChange = integer(each.value);
      else if (each.name == "answers") this.answers = pairs(each.value);
    }
  }
  // get returns an answer, or "".
  get(name: string): string {
    return get(this.answers, name);
  }
}

// challenge returns what the plugin knows from answers of the API. Call it before request and body.
export function challenge(): Answers {
  return new Answers(take(host_challenge()));
}

// lifetime returns for how many seconds what has been answered is valid, by the answers expires_in or expires_at. The latter is a time of
// the API's clock. If neither was found, it returns usual.
export function lifetime(a: Answers, usual: i64): i64 {
  const seconds = a.get("expires_in");
  const end = a.get("expires_at");
  if (seconds != "") return integer(seconds);
  if (end == "") return usual;
  const left = integer(end) - now();
  const offset = clockOffset();
  return left > offset ? left - offset : left; // a new token is not over: the host's clock was set right since the offset was learnt
}

// Exchange is a request to a URL of the configuration. json is JSON, and excludes form.
export class Exchange {
  path: string[] = [];
  query: Pair[] = [];
  method: string = "";
  headers: Pair[] = [];
  form: Pair[] = [];
  json: string = "";
  answers: string[] = [];
  constructor(public url: string) {}
}

// exchange sends a request: token.
export function exchange(x: Exchange): Answers {
  const o = new Members();
  o.string("url", x.url);
  o.strings("path", x.path);
  o.pairs("query", x.query);
  o.optional("method", x.method);
  o.pairs("headers", x.headers);
  o.pairs("form", x.form);
  if (x.json != "") o.raw("json", x.json);
  o.strings("answers", x.answers);
  return new Answers(take(host_exchange(give(o.json()))));
}

// The request. After these functions, the call can use neither the cache nor an endpoint.

// Request is the outgoing request. contentLength is -1 if it is not known.
export class Request {
  method: string = "";
  url: string = "";
  headers: Pair[] = [];
  contentLength: i64 = -1;
  // split returns scheme, authority and target of the URL. The target is the path and the query, as they are sent. Scheme and authority are
  // in lower case and without the default port.
  split(): string[] {
    const hash = this.url.indexOf("#"), url = hash < 0 ? this.url : this.url.substring(0, hash);
    const from = url.indexOf("://") + 3, scheme = lower(url.substring(0, from - 3));
    let to = from;
    while (to < url.length && url.charCodeAt(to) != 0x2f && url.charCodeAt(to) != 0x3f) to++;
    const target = url.substring(to), port = scheme == "http" ? ":80" : ":443";
    let authority = lower(url.substring(from, to));
    if (authority.endsWith(port)) authority = authority.substring(0, authority.length - port.length);
    return [scheme, authority, target.startsWith("/") ? target : "/" + target];
  }
}
export function request(): Request {
  const r = new Request(), each = new Each(take(input_offset()));
  while (each.next()) {
    if (each.name == "method") r.method = text(each.value);
    else if (each.name == "url") r.url = text(each.value);
    else if (each.name == "headers") r.headers = pairs(each.value);
    else if (each.name == "content_length") r.contentLength = integer(each.value);
  }
  return r;
}

// headerValue returns the values of a header, joined by a comma, or null. The case of the name does not matter.
export function headerValue(headers: Pair[], name: string): string | null {
  let value: string | null = null;
  for (let i = 0; i < headers.length; i++) {
    if (lower(headers[i].name) == lower(name)) value = value === null ? headers[i].value : value + ", " + headers[i].value;
  }
  return value;
}

// body returns a sealed value that stands for the body, for digest and mac. bodyForm returns the members of a form, or null: body.
export function body(): string {
  return take(host_body());
}
export function bodyForm(): Pair[] | null {
  const list = maybe(body_form());
  return list === null ? null : pairs(list);
}

// compose returns a text of the outgoing request by a template, such as "{method}\n{target}\n{body|sha256|hex}". composeWith is the same
// for a request with the headers, query and form of a mutation; values are further placeholders. A call can use the cache and an
// endpoint as long as no placeholder is of the request. {body}: body.
export function compose(template: string): string {
  return take(host_compose(give(template), 0));
}
export function composeWith(template: string, changes: Mutation, values: Pair[] = []): string {
  return composed(template, changes, values, false);
}

// composeLater returns a reference in place of the text, so that the host may do the same for the next request without the plugin.
export function composeLater(template: string, changes: Mutation, values: Pair[] = []): string {
  return composed(template, changes, values, true);
}
function composed(template: string, changes: Mutation, values: Pair[], later: bool): string {
  const o = new Members();
  o.pairs("headers", changes.headers);
  o.pairs("query", changes.query);
  o.pairs("form", changes.form);
  o.pairs("values", values);
  o.flag("later", later);
  return take(host_compose(give(template), give(o.json())));
}

// composeObject composes the texts of a JSON object or list, at any depth. Names of members stay as they are.
export function composeObject(json: string, values: Pair[] = []): string {
  const begin = json.trimStart().charAt(0);
  if (begin == '"') return quote(composeWith(text(json.trim()), new Mutation(), values));
  if (begin != "{" && begin != "[") return json;
  const each = new Each(json);
  let all = "";
  while (each.next()) {
    if (all != "") all += ",";
    if (begin == "{") all += quote(each.name) + ":";
    all += composeObject(each.value, values);
  }
  return begin + all + (begin == "{" ? "}" : "]");
}

// parts returns a value for each member of an object field whose values are templates, in the order of their names. A template may use the
// values of those before it.
export function parts(field: string): Pair[] {
  const values = pairs(config(field));
  for (let i = 0; i < values.length; i++) values[i].value = composeWith(values[i].value, new Mutation(), values.slice(0, i));
  return values;
}

// Code is the code with which a user came back from consent. code is for connect.
export class Code {
  constructor(public code: string, public verifier: string, public redirectURI: string) {}
}
export function code(): Code {
  const p = pairs(take(input_offset()));
  return new Code(get(p, "code"), get(p, "code_verifier"), get(p, "redirect_uri"));
}

// lower returns a text with its ASCII letters in lower case.
export function lower(text: string): string {
  const units = new StaticArray<u16>(text.length);
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    units[i] = <u16>(c >= 0x41 && c <= 0x5a ? c | 0x20 : c);
  }
  return String.UTF16.decodeUnsafe(changetype<usize>(units), text.length << 1);
}

// isToken reports whether a text is a token, such as a cookie's name or an authentication scheme (RFC 9110 section 5.6.2).
export function isToken(text: string): bool {
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i), letter = c | 0x20;
    if ((letter < 0x61 || letter > 0x7a) && (c < 0x30 || c > 0x39) && !"!#$%&'*+-.^_`|~".includes(text.charAt(i))) return false;
  }
  return text != "";
}

// JSON.

// Members builds a JSON object, member by member. raw adds a member that is JSON, string one with a string, optional one that is not empty,
// flag one that is true, and pairs and strings a list that is not empty.
export class Members {
  private text: string = "";
  json(): string {
    return "{" + this.text + "}";
  }
  raw(name: string, json: string): void {
    this.text += (this.text == "" ? "" : ",") + quote(name) + ":" + json;
  }
  string(name: string, value: string): void {
    this.raw(name, quote(value));
  }
  optional(name: string, value: string): void {
    if (value != "") this.string(name, value);
  }
  flag(name: string, value: bool): void {
    if (value) this.raw(name, "true");
  }
  strings(name: string, list: string[]): void {
    let all = "";
    for (let i = 0; i < list.length; i++) all += (i > 0 ? "," : "") + quote(list[i]);
    if (all != "") this.raw(name, "[" + all + "]");
  }
  pairs(name: string, list: Pair[]): void {
    let all = "";
    for (let i = 0; i < list.length; i++) all += (i > 0 ? "," : "") + '{"name":' + quote(list[i].name) + ',"value":' + quote(list[i].value) + "}";
    if (all != "") this.raw(name, "[" + all + "]");
  }
}

// quote returns a text as a JSON string.
export function quote(text: string): string {
  let out = '"', from = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
    out += text.substring(from, i);
    if (c < 0x20) out += (c < 0x10 ? "\\u000" : "\\u001") + "0123456789abcdef".charAt(c & 15);
    else out += "\\" + text.charAt(i);
    from = i + 1;
  }
  return out + text.substring(from) + '"';
}

// Each walks over a JSON object or a list: while (each.next()) uses each.name and each.value. The value is JSON text. In a list there are no
// names. The walk ends where the text is not JSON.
export class Each {
  name: string = "";
  value: string = "";
  private at: i32 = 0;
  private object: bool = false;
  constructor(private json: string) {}

  next(): bool {
    const s = this.json;
    let i = this.space(this.at);
    const c = i < s.length ? s.charCodeAt(i) : 0;
    if (this.at > 0 ? c != 0x2c : c != 0x7b && c != 0x5b) return false;
    if (c != 0x2c) this.object = c == 0x7b;
    i = this.space(i + 1);
    if (this.object) {
      const end = this.end(i);
      this.name = text(s.substring(i, end));
      i = this.space(end);
      if (i >= s.length || s.charCodeAt(i) != 0x3a) return false;
      i = this.space(i + 1);
    }
    this.at = this.end(i);
    this.value = s.substring(i, this.at);
    return this.at > i;
  }

  private space(i: i32): i32 {
    while (i < this.json.length && this.json.charCodeAt(i) <= 0x20) i++;
    return i;
  }

  // end returns the end of the JSON value that begins at i.
  private end(i: i32): i32 {
    const s = this.json;
    for (let depth = 0; i < s.length; i++) {
      const c = s.charCodeAt(i);
      if (c == 0x22) {
        for (i++; i < s.length && s.charCodeAt(i) != 0x22; i++) if (s.charCodeAt(i) == 0x5c) i++;
        if (depth == 0) return i < s.length ? i + 1 : s.length;
      } else if (c == 0x7b || c == 0x5b) {
        depth++;
      } else if (c == 0x7d || c == 0x5d) {
        if (depth == 0) return i;
        if (--depth == 0) return i + 1;
      } else if (depth == 0 && (c == 0x2c || c == 0x3a || c <= 0x20)) {
        return i;
      }
    }
    return s.length;
  }
}

// unit returns the value of the four hexadecimal digits at i.
function unit(json: string, i: i32): i32 {
  let value = 0;
  for (const end = i + 4; i < end && i < json.length; i++) {
    const c = json.charCodeAt(i);
    value = (value << 4) | ((c <= 0x39 ? c - 0x30 : (c | 0x20) - 0x61 + 10) & 15);
  }
  return value;
}

// text returns a JSON string decoded, and other JSON as it is.
export function text(json: string): string {
  if (!json.startsWith('"')) return json;
  json = json.substring(1, json.length - 1);
  let out = "", from = 0;
  for (let i = json.indexOf("\\"); i >= 0 && i + 1 < json.length; i = json.indexOf("\\", from)) {
    out += json.substring(from, i);
    const escape = json.charAt(i + 1), known = "b\bf\fn\nr\rt\t".indexOf(escape);
    from = i + 2;
    if (escape == "u") {
      out += String.fromCharCode(unit(json, from));
      from += 4;
    } else {
      out += known < 0 ? escape : "b\bf\fn\nr\rt\t".charAt(known + 1);
    }
  }
  return out + json.substring(from);
}

// integer returns the number that a text is, or 0.
export function integer(text: string): i64 {
  let n: i64 = 0;
  const negative = text.startsWith("-");
  for (let i = negative ? 1 : 0; i < text.length && text.charCodeAt(i) >= 0x30 && text.charCodeAt(i) <= 0x39; i++) n = 10 * n + (text.charCodeAt(i) - 0x30);
  return negative ? -n : n;
}

// pairs returns the members of a JSON object whose values are texts or numbers, or those of a list of objects with name and value.
export function pairs(json: string): Pair[] {
  const list: Pair[] = [], each = new Each(json);
  while (each.next()) {
    const p = new Pair(each.name, text(each.value)), inner = new Each(each.name == "" ? each.value : "");
    while (inner.next()) {
      if (inner.name == "name") p.name = text(inner.value);
      else if (inner.name == "value") p.value = text(inner.value);
    }
    list.push(p);
  }
  return list;
}

// get returns the value of a name, or "".
export function get(list: Pair[], name: string): string {
  for (let i = 0; i < list.length; i++) if (list[i].name == name) return list[i].value;
  return "";
}
