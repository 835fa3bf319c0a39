//! keywright.rs is the Rust SDK for Keywright plugins: one module. README.md beside it shows a plugin, and ABI.md is the contract.
//! Functions have the names of the Go SDK.
//!
//! A plugin never sees a credential. In place of a secret, a token or a signature it gets a sealed value: a text that refers to the
//! bytes. It can put that text into others with format!, and may not cut or change it. If a host function fails, it ends the call and
//! does not return.
#![allow(dead_code)] // a plugin uses a part of it

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32;
use std::panic;

// Constants of the contract. go generate ./tools/constants writes them.
pub const DIGEST_MD5: &str = "md5";
pub const DIGEST_SHA1: &str = "sha1";
pub const DIGEST_SHA256: &str = "sha256";
pub const DIGEST_SHA384: &str = "sha384";
pub const DIGEST_SHA512: &str = "sha512";
pub const DIGEST_SHA512256: &str = "sha512_256";
pub const MAC_SHA1: &str = "HS1";
pub const MAC_SHA256: &str = "HS256";
pub const MAC_SHA384: &str = "HS384";
pub const MAC_SHA512: &str = "HS512";
pub const FOR_JWT: &str = "jwt";
pub const FOR_HTTP_SIGNATURE: &str = "http_signature";
pub const FOR_MESSAGE: &str = "message";
pub const FOR_JWS: &str = "jws";
pub const RS1: &str = "RS1";
pub const JWK: &str = "jwk";
pub const JWK_THUMBPRINT: &str = "jwk_thumbprint";
pub const X5T: &str = "x5t#S256";
pub const X5C: &str = "x5c";
pub const ANSWER_SEALED: &str = "sealed";
pub const ANSWER_INTEGER: &str = "integer";
pub const ANSWER_TIME: &str = "time";
pub const ANSWER_ENUM: &str = "enum";
pub const ABI: i64 = 1;
pub const STRING: &str = "string";
pub const URL: &str = "url";
pub const INTEGER: &str = "integer";
pub const BOOLEAN: &str = "boolean";
pub const OBJECT: &str = "object";
pub const KEY: &str = "key";
pub const CERTIFICATE: &str = "certificate";
pub const TO_HEADER: &str = "header";
pub const TO_QUERY: &str = "query";
pub const TO_TOKEN: &str = "token";
pub const TO_CLAIM: &str = "claim";
pub const TO_SIGN: &str = "sign";
pub const TO_DIGEST: &str = "digest";
pub const TO_PATH: &str = "path";
pub const TO_BODY: &str = "body";
pub const TO_URL: &str = "url";
pub const USES_SECRET: &str = "secret";
pub const USES_TOKEN: &str = "token";
pub const USES_CACHE: &str = "cache";
pub const USES_SIGN: &str = "sign";
pub const USES_BODY: &str = "body";
pub const USES_STATE: &str = "state";
pub const USES_TURN: &str = "turn";
pub const MAX_RANDOM: i64 = 64;
pub const MAX_FIELDS: i64 = 256;
pub const MAX_ALIASES: i64 = 8;
pub const MAX_ABOUT: i64 = 512;
pub const MAX_PATTERN: i64 = 256;
pub const MAX_ANSWERS: i64 = 16;
pub const MAX_PLAIN_ANSWERS: i64 = 8;
pub const MAX_STATES: i64 = 4;
pub const MAX_ENUM: i64 = 32;
// End of the constants.

/// exports exports functions of a plugin under their names: exports!(describe, authenticate). What they return is an [Outcome].
#[macro_export]
macro_rules! exports {
    ($($name:ident),+ $(,)?) => {
        mod keywright_exports {
            $(#[export_name = stringify!($name)]
            extern "C" fn $name() -> i32 {
                $crate::keywright::begin();
                $crate::keywright::Outcome::end(super::$name())
            })+
        }
    };
}

/// Outcome is the result of an export: a text for describe, a list of problems for validate, a [Mutation] for authenticate, a [Consent]
/// for consent, and () for connect and disconnect. As a Result, it may be an error, which is a text for people.
pub trait Outcome {
    fn end(self) -> i32;
}

impl Outcome for &str {
    fn end(self) -> i32 {
        unsafe { env::output_set(give(self), self.len() as u64) };
        0
    }
}

impl Outcome for () {
    fn end(self) -> i32 {
        0
    }
}

impl<T: Outcome> Outcome for Result<T, String> {
    fn end(self) -> i32 {
        match self {
            Ok(outcome) => outcome.end(),
            Err(message) => {
                unsafe { env::error_set(give(&message)) };
                1
            }
        }
    }
}

// Host functions, as ABI.md has them. Parameters and results are offsets of memory blocks unless they have another name or type.
mod env {
    #[link(wasm_import_module = "extism:host/env")]
    extern "C" {
        pub fn config_get(name: u64) -> u64;
        pub fn input_offset() -> u64;
        pub fn output_set(block: u64, length: u64);
        pub fn error_set(block: u64);
        pub fn log_debug(block: u64);
        pub fn log_info(block: u64);
        pub fn log_warn(block: u64);
        pub fn log_error(block: u64);
    }
}
mod user {
    #[link(wasm_import_module = "extism:host/user")]
    extern "C" {
        pub fn block_new(address: *const u8, length: u32) -> u64;
        pub fn block_read(block: u64, address: *mut u8, room: u32) -> u64;
        pub fn time_now() -> i64;
        pub fn time_millis() -> i64;
        pub fn clock_offset() -> i64;
        pub fn counter(floor: i64) -> i64;
        pub fn random(bytes: i64) -> u64;
        pub fn secret_get(name: u64) -> u64;
        pub fn token_request(request: u64) -> u64;
        pub fn exchange(request: u64) -> u64;
        pub fn cache_get(key: u64) -> u64;
        pub fn cache_set(key: u64, value: u64, seconds: i64);
        pub fn cache_drop(key: u64) -> u64;
        pub fn state_get(name: u64) -> u64;
        pub fn compose(template: u64, composition: u64) -> u64;
        pub fn challenge() -> u64;
        pub fn jwt_sign(request: u64) -> u64;
        pub fn jws_sign(request: u64) -> u64;
        pub fn encode(format: u64, text: u64) -> u64;
        pub fn decode(format: u64, text: u64) -> u64;
        pub fn digest(algorithm: u64, data: u64) -> u64;
        pub fn mac(hash: u64, key: u64, data: u64) -> u64;
        pub fn sign_sealed(field: u64, purpose: u64, data: u64) -> u64;
        pub fn public_key(field: u64, form: u64) -> u64;
        pub fn body() -> u64;
        pub fn body_form() -> u64;
        pub fn sign(field: u64, data: u64) -> u64;
        pub fn reveal(value: u64) -> u64;
    }
}

/// give returns a new memory block with a text or bytes.
fn give(data: impl AsRef<[u8]>) -> u64 {
    let data = data.as_ref();
    unsafe { user::block_new(data.as_ptr(), data.len() as u32) }
}

fn take_bytes(block: u64) -> Vec<u8> {
    unsafe {
        let length = user::block_read(block, std::ptr::null_mut(), 0) as usize;
        let mut bytes = Vec::with_capacity(length);
        user::block_read(block, bytes.as_mut_ptr(), length as u32);
        bytes.set_len(length);
        bytes
    }
}

fn take(block: u64) -> String {
    match String::from_utf8(take_bytes(block)) {
        Ok(text) => text,
        Err(_) => trap("a text of the host is not UTF-8"),
    }
}

/// maybe returns the text of a memory block, or None if there is none.
fn maybe(block: u64) -> Option<String> {
    if block == 0 {
        return None;
    }
    Some(take(block))
}

/// trap ends the call, as a panic does. The host logs why.
pub fn trap(why: &str) -> ! {
    unsafe { env::log_error(give(why)) };
    wasm32::unreachable()
}

/// begin has panics end the call with their place in the log. [exports] calls it.
pub fn begin() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        trap(&("the plugin panics".to_owned() + &place))
    }));
}

/// Room hands out memory, and takes none back: the host puts the memory back after the call.
struct Room;

static mut USED: usize = 0;

extern "C" {
    static __heap_base: u8;
}

unsafe impl GlobalAlloc for Room {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let from = if USED == 0 { &__heap_base as *const u8 as usize } else { USED };
        let at = (from + layout.align() - 1) & !(layout.align() - 1);
        let have = wasm32::memory_size(0) << 16;
        let end = match at.checked_add(layout.size()) {
            Some(end) => end,
            None => return std::ptr::null_mut(),
        };
        if end > have && wasm32::memory_grow(0, (end - have + 65535) >> 16) == usize::MAX {
            return std::ptr::null_mut();
        }
        USED = end;
        at as *mut u8
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if at as usize + layout.size() == USED {
            USED = at as usize; // it was made last, as a text that grows often is
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.dealloc(at, layout);
        let to = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if to != at && !to.is_null() {
            std::ptr::copy_nonoverlapping(at, to, layout.size());
        }
        to
    }
}

#[global_allocator]
static ROOM: Room = Room;

/// Pair is the name and the value of a header, a query parameter, a form field or an answer.
#[derive(Clone)]
pub struct Pair {
    pub name: String,
    pub value: String,
}

/// pair returns a [Pair].
pub fn pair(name: impl Into<String>, value: impl Into<String>) -> Pair {
    Pair { name: name.into(), value: value.into() }
}

/// Mutation has the changes to the request.
#[derive(Default)]
pub struct Mutation {
    pub headers: Vec<Pair>,
    pub query: Vec<Pair>,
    pub cookies: Vec<Pair>,
    pub path: Vec<Pair>,
    pub form: Vec<Pair>,
    /// A sealed value with the sink url, or empty.
    pub url: String,
    pub pass: bool,
}

impl Outcome for Mutation {
    fn end(self) -> i32 {
        let mut o = Members::default();
        o.pairs("headers", &self.headers);
        o.pairs("query", &self.query);
        o.pairs("cookies", &self.cookies);
        o.pairs("path", &self.path);
        o.pairs("form", &self.form);
        o.optional("url", &self.url);
        o.flag("pass", self.pass);
        o.json().as_str().end()
    }
}

/// header returns a mutation with one header.
pub fn header(name: impl Into<String>, value: impl Into<String>) -> Mutation {
    Mutation { headers: vec![pair(name, value)], ..Default::default() }
}

/// query returns a mutation with one query parameter.
pub fn query(name: impl Into<String>, value: impl Into<String>) -> Mutation {
    Mutation { query: vec![pair(name, value)], ..Default::default() }
}

/// bearer returns a mutation with a token in the Authorization header.
pub fn bearer(token: &str) -> Mutation {
    header("Authorization", format!("Bearer {token}"))
}

/// Push says how an authorization request is pushed (RFC 9126).
#[derive(Default)]
pub struct Push {
    pub url: String,
    pub form: Vec<Pair>,
    pub headers: Vec<Pair>,
}

/// Consent is the page to which a user's browser goes.
#[derive(Default)]
pub struct Consent {
    pub url: String,
    pub query: Vec<Pair>,
    pub issuer: String,
    pub iss_required: bool,
    pub code_parameter: String,
    pub no_pkce: bool,
    pub push: Option<Push>,
}

impl Outcome for Consent {
    fn end(self) -> i32 {
        let mut o = Members::default();
        o.string("url", &self.url);
        o.pairs("query", &self.query);
        o.optional("issuer", &self.issuer);
        o.flag("iss_required", self.iss_required);
        o.optional("code_parameter", &self.code_parameter);
        o.flag("no_pkce", self.no_pkce);
        if let Some(p) = &self.push {
            let mut push = Members::default();
            push.string("url", &p.url);
            push.pairs("form", &p.form);
            push.pairs("headers", &p.headers);
            o.raw("push", &push.json());
        }
        o.json().as_str().end()
    }
}

/// Problem is an error in a field. validate fails if there are any.
pub struct Problem {
    pub field: String,
    pub message: String,
}

/// problem returns a [Problem].
pub fn problem(field: &str, message: &str) -> Problem {
    Problem { field: field.into(), message: message.into() }
}

impl Outcome for Vec<Problem> {
    fn end(self) -> i32 {
        let lines: Vec<String> = self.iter().map(|p| format!("{}: {}", p.field, p.message)).collect();
        if lines.is_empty() {
            return 0;
        }
        Err::<(), String>(lines.join("\n")).end()
    }
}

// What a plugin calls. The comments name the group that the description must have in uses.

/// config returns the rendered value of a field, or "" if it is absent.
pub fn config(name: &str) -> String {
    take(unsafe { env::config_get(give(name)) })
}

/// literal returns the value of a field if it is literal, and is for validate.
pub fn literal(name: &str) -> Option<String> {
    maybe(unsafe { env::config_get(give(name)) })
}

/// first returns the value of the first of some fields that is not empty, or "".
pub fn first(names: &[&str]) -> String {
    names.iter().map(|name| config(name)).find(|value| !value.is_empty()).unwrap_or_default()
}

/// secret returns the sealed value of a secret that the configuration names: secret.
pub fn secret(name: &str) -> String {
    take(unsafe { user::secret_get(give(name)) })
}

/// now returns Unix seconds.
pub fn now() -> i64 {
    unsafe { user::time_now() }
}

/// now_millis returns Unix milliseconds.
pub fn now_millis() -> i64 {
    unsafe { user::time_millis() }
}

/// clock_offset returns by how many seconds the clock of the API is ahead of the host's.
pub fn clock_offset() -> i64 {
    unsafe { user::clock_offset() }
}

/// counter returns a number that only rises: turn.
pub fn counter(floor: i64) -> i64 {
    unsafe { user::counter(floor) }
}

/// random returns random bytes in hex.
pub fn random(bytes: i64) -> String {
    take(unsafe { user::random(bytes) })
}

pub fn debug(line: &str) {
    unsafe { env::log_debug(give(line)) }
}

pub fn info(line: &str) {
    unsafe { env::log_info(give(line)) }
}

pub fn warn(line: &str) {
    unsafe { env::log_warn(give(line)) }
}

/// cached returns a value of the cache: cache.
pub fn cached(key: &str) -> Option<String> {
    maybe(unsafe { user::cache_get(give(key)) })
}

/// cache stores a value for some seconds: cache.
pub fn cache(key: &str, value: &str, seconds: i64) {
    unsafe { user::cache_set(give(key), give(value), seconds) }
}

/// drop forgets a value, and reports whether a new one may help: cache.
pub fn drop(key: &str) -> bool {
    unsafe { user::cache_drop(give(key)) != 0 }
}

/// cache_token stores a token until a minute before it ends. If its lifetime in seconds is not longer, or not known and so 0, it stores
/// nothing and logs a warning: cache.
pub fn cache_token(key: &str, token: &str, lifetime: i64) {
    if lifetime > 60 {
        cache(key, token, lifetime - 60);
    } else {
        warn("the token is not cached: it has no lifetime above 60 seconds");
    }
}

/// state returns a state of the grant, and takes the turn of the grant. The next exchange uses it: state.
pub fn state(name: &str) -> Option<String> {
    maybe(unsafe { user::state_get(give(name)) })
}

/// encode returns a text or bytes in a format. It is sealed if the text holds a sealed value.
pub fn encode(format: &str, data: impl AsRef<[u8]>) -> String {
    take(unsafe { user::encode(give(format), give(data)) })
}

/// decode returns the bytes that a text has in a format. They are a sealed value if the text holds one.
pub fn decode(format: &str, text: &str) -> Vec<u8> {
    take_bytes(unsafe { user::decode(give(format), give(text)) })
}

pub fn base64(data: impl AsRef<[u8]>) -> String {
    encode("base64", data)
}

pub fn base64_url(data: impl AsRef<[u8]>) -> String {
    encode("base64url", data)
}

pub fn base32(data: impl AsRef<[u8]>) -> String {
    encode("base32", data)
}

pub fn hex(data: impl AsRef<[u8]>) -> String {
    encode("hex", data)
}

pub fn hex_upper(data: impl AsRef<[u8]>) -> String {
    encode("hex_upper", data)
}

pub fn percent(data: impl AsRef<[u8]>) -> String {
    encode("percent", data)
}

pub fn form_encode(data: impl AsRef<[u8]>) -> String {
    encode("form", data)
}

pub fn quoted(data: impl AsRef<[u8]>) -> String {
    encode("quoted", data)
}

/// digest returns a hash, of which the algorithm is a DIGEST_…. It is bytes, and must be encoded before it is sent.
pub fn digest(algorithm: &str, data: impl AsRef<[u8]>) -> Vec<u8> {
    take_bytes(unsafe { user::digest(give(algorithm), give(data)) })
}

/// mac returns an HMAC by a hash, which is a MAC_…. It is bytes: sign.
pub fn mac(hash: &str, key: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Vec<u8> {
    take_bytes(unsafe { user::mac(give(hash), give(key), give(data)) })
}

/// sign_sealed returns a signature with the key of a field for a purpose, which is a FOR_…. It is bytes: sign.
pub fn sign_sealed(field: &str, purpose: &str, data: impl AsRef<[u8]>) -> Vec<u8> {
    take_bytes(unsafe { user::sign_sealed(give(field), give(purpose), give(data)) })
}

/// public_key returns the public half of the key of a field, in a form such as JWK: sign.
pub fn public_key(field: &str, form: &str) -> String {
    take(unsafe { user::public_key(give(field), give(form)) })
}

/// sign needs the grant sign_raw.
pub fn sign(field: &str, data: impl AsRef<[u8]>) -> Vec<u8> {
    take_bytes(unsafe { user::sign(give(field), give(data)) })
}

/// reveal needs the grant reveal.
pub fn reveal(value: &str) -> Vec<u8> {
    take_bytes(unsafe { user::reveal(give(value)) })
}

/// JWT is an unsigned JWT. The header, if it is not empty, and the claims are JSON objects.
#[derive(Default)]
pub struct JWT {
    pub key: String,
    pub header: String,
    pub claims: String,
    pub integers: Vec<String>,
}

/// sign_jwt signs a JWT for a header of the request: sign.
pub fn sign_jwt(j: &JWT) -> String {
    sign_for("header", j)
}

/// sign_query_jwt signs a JWT for the query of the request: sign.
pub fn sign_query_jwt(j: &JWT) -> String {
    sign_for("query", j)
}

/// sign_assertion signs a JWT for a token request: sign.
pub fn sign_assertion(j: &JWT) -> String {
    sign_for("token", j)
}

fn sign_for(sink: &str, j: &JWT) -> String {
    let mut o = Members::default();
    o.string("key", &j.key);
    o.string("for", sink);
    if !j.header.is_empty() {
        o.raw("header", &j.header);
    }
    o.raw("claims", &j.claims);
    o.strings("integers", &j.integers);
    take(unsafe { user::jwt_sign(give(o.json())) })
}

/// JWS is a signature to make. The header, if it is not empty, is a JSON object, and crit names members of it.
#[derive(Default)]
pub struct JWS {
    pub key: String,
    pub header: String,
    pub crit: Vec<String>,
    pub unencoded: bool,
    pub payload: String,
    pub attached: bool,
    pub integers: Vec<String>,
}

/// sign_jws returns a JWS, without its payload unless that is attached: sign.
pub fn sign_jws(j: &JWS) -> String {
    let mut o = Members::default();
    o.string("key", &j.key);
    if !j.header.is_empty() {
        o.raw("header", &j.header);
    }
    o.strings("crit", &j.crit);
    o.flag("unencoded", j.unencoded);
    o.string("payload", &j.payload);
    o.flag("attached", j.attached);
    o.strings("integers", &j.integers);
    take(unsafe { user::jws_sign(give(o.json())) })
}

/// TokenRequest is a request to a token endpoint (RFC 6749). extra names further members of the answer.
#[derive(Default)]
pub struct TokenRequest {
    pub url: String,
    pub form: Vec<Pair>,
    pub headers: Vec<Pair>,
    pub extra: Vec<String>,
}

/// Token is the answer to a token request. expires_in is 0 if it is not known.
#[derive(Default)]
pub struct Token {
    pub access_token: String,
    pub token_type: String,
    pub scope: String,
    pub expires_in: i64,
    pub extra: Vec<Pair>,
}

/// request_token requests a token. The error says what the endpoint answered: token.
pub fn request_token(r: &TokenRequest) -> Result<Token, String> {
    let mut o = Members::default();
    o.string("url", &r.url);
    o.pairs("form", &r.form);
    o.pairs("headers", &r.headers);
    o.strings("extra", &r.extra);
    let (mut token, mut status, mut error) = (Token::default(), String::new(), String::new());
    for (name, value) in each(&take(unsafe { user::token_request(give(o.json())) })) {
        match name.as_str() {
            "status" => status = text(value),
            "error" => error = text(value),
            "access_token" => token.access_token = text(value),
            "token_type" => token.token_type = text(value),
            "scope" => token.scope = text(value),
            "expires_in" => token.expires_in = integer(value),
            "extra" => token.extra = pairs(value),
            _ => {}
        }
    }
    if status.len() == 3 && status.starts_with('2') {
        return Ok(token);
    }
    if !error.is_empty() {
        error = format!(" ({error})");
    }
    Err(format!("the token endpoint answered {status}{error}"))
}

/// Answers has parts of an answer, by the names of the description. status is 0 in a challenge that is none.
#[derive(Default)]
pub struct Answers {
    pub status: i64,
    pub count: i64,
    pub clock_change: i64,
    pub answers: Vec<Pair>,
}

impl Answers {
    fn new(reply: &str) -> Answers {
        let mut a = Answers::default();
        for (name, value) in each(reply) {
            match name.as_str() {
                "answers" => a.answers = pairs(value),
                "status" => a.status = integer(value),
                "count" => a.count = integer(value),
                "clock_change" => a.clock_change = integer(value),
                _ => {}
            }
        }
        a
    }

    /// get returns an answer, or "".
    pub fn get(&self, name: &str) -> &str {
        get(&self.answers, name)
    }
}

/// challenge returns what the plugin knows from answers of the API. Call it before request and body.
pub fn challenge() -> Answers {
    Answers::new(&take(unsafe { user::challenge() }))
}

/// lifetime returns for how many seconds what has been answered is valid, by the answers expires_in or expires_at. The latter is a time of
/// the API's clock. If neither was found, it returns usual.
pub fn lifetime(a: &Answers, usual: i64) -> i64 {
    let (duration, end) = (a.get("expires_in"), a.get("expires_at"));
    if !duration.is_empty() {
        return integer(duration);
    }
    if end.is_empty() {
        return usual;
    }
    let (left, offset) = (integer(end) - now(), clock_offset());
    if left > offset { left - offset } else { left } // a new token is not over: the host's clock was set right since the offset was learnt
}

/// Exchange is a request to a URL of the configuration. json is JSON, and excludes form.
#[derive(Default)]
pub struct Exchange {
    pub url: String,
    pub method: String,
    pub json: String,
    pub path: Vec<String>,
    pub answers: Vec<String>,
    pub query: Vec<Pair>,
    pub headers: Vec<Pair>,
    pub form: Vec<Pair>,
}

/// exchange sends a request and returns parts of the answer: token.
pub fn exchange(x: &Exchange) -> Answers {
    let mut o = Members::default();
    o.string("url", &x.url);
    o.strings("path", &x.path);
    o.pairs("query", &x.query);
    o.optional("method", &x.method);
    o.pairs("headers", &x.headers);
    o.pairs("form", &x.form);
    if !x.json.is_empty() {
        o.raw("json", &x.json);
    }
    o.strings("answers", &x.answers);
    Answers::new(&take(unsafe { user::exchange(give(o.json())) }))
}

// The request. After these functions, the call can use neither the cache nor an endpoint.

/// Request is the outgoing request. content_length is -1 if it is not known.
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<Pair>,
    pub content_length: i64,
}

/// request returns the outgoing request.
pub fn request() -> Request {
    let mut r = Request { method: String::new(), url: String::new(), headers: Vec::new(), content_length: -1 };
    for (name, value) in each(&take(unsafe { env::input_offset() })) {
        match name.as_str() {
            "method" => r.method = text(value),
            "url" => r.url = text(value),
            "headers" => r.headers = pairs(value),
            "content_length" => r.content_length = integer(value),
            _ => {}
        }
    }
    r
}

impl Request {
    /// split returns scheme and authority of the URL, in lower case and without the default port, and the path with the query as they are
    /// sent.
    pub fn split(&self) -> (String, String, String) {
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let (scheme, rest) = (scheme.to_ascii_lowercase(), rest.split('#').next().unwrap_or_default());
        let (authority, target) = rest.split_at(rest.find(|c| c == '/' || c == '?').unwrap_or(rest.len()));
        let port = if scheme == "http" { ":80" } else { ":443" };
        let authority = authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
        let root = if target.starts_with('/') { "" } else { "/" };
        (scheme, authority, format!("{root}{target}"))
    }
}

/// body returns a sealed value that stands for the body, for digest and mac: body.
pub fn body() -> String {
    take(unsafe { user::body() })
}

/// body_form returns the members of a form, or None if the body is none: body.
pub fn body_form() -> Option<Vec<Pair>> {
    maybe(unsafe { user::body_form() }).map(|list| pairs(&list))
}

/// compose returns a text of the outgoing request by a template, such as "{method}\n{target}\n{body|sha256|hex}". A call can use the cache
/// and an endpoint as long as no placeholder is of the request. {body}: body.
pub fn compose(template: &str) -> String {
    take(unsafe { user::compose(give(template), 0) })
}

/// compose_with is like [compose] for a request with the headers, query and form of a mutation. values are further placeholders.
pub fn compose_with(template: &str, changes: &Mutation, values: &[Pair]) -> String {
    composed(template, changes, values, false)
}

/// compose_later returns a reference in place of the text, so that the host may do the same for the next request without the plugin.
pub fn compose_later(template: &str, changes: &Mutation, values: &[Pair]) -> String {
    composed(template, changes, values, true)
}

fn composed(template: &str, changes: &Mutation, values: &[Pair], later: bool) -> String {
    let mut o = Members::default();
    o.pairs("headers", &changes.headers);
    o.pairs("query", &changes.query);
    o.pairs("form", &changes.form);
    o.pairs("values", values);
    o.flag("later", later);
    take(unsafe { user::compose(give(template), give(o.json())) })
}

/// compose_object composes the texts of a JSON object or list, at any depth. Names of members stay as they are.
pub fn compose_object(json: &str, values: &[Pair]) -> String {
    let json = json.trim();
    let (opening, closing) = match json.chars().next() {
        Some('"') => return quote(&compose_with(&text(json), &Mutation::default(), values)),
        Some('{') => ('{', '}'),
        Some('[') => ('[', ']'),
        _ => return json.into(),
    };
    let members = each(json).map(|(name, value)| {
        let name = if opening == '{' { quote(&name) + ":" } else { String::new() };
        name + &compose_object(value, values)
    });
    format!("{opening}{}{closing}", members.collect::<Vec<String>>().join(","))
}

/// parts returns a value for each member of an object field whose values are templates, in the order of their names. A template may use the
/// values of those before it.
pub fn parts(field: &str) -> Vec<Pair> {
    let mut values = Vec::new();
    for p in pairs(&config(field)) {
        let value = compose_with(&p.value, &Mutation::default(), &values);
        values.push(pair(p.name, value));
    }
    values
}

/// Code is the code with which a user came back from consent.
pub struct Code {
    pub code: String,
    pub verifier: String,
    pub redirect_uri: String,
}

/// code returns the [Code], and is for connect.
pub fn code() -> Code {
    let p = pairs(&take(unsafe { env::input_offset() }));
    let value = |name| get(&p, name).to_owned();
    Code { code: value("code"), verifier: value("code_verifier"), redirect_uri: value("redirect_uri") }
}

/// is_token reports whether a text is a token, such as a cookie's name or an authentication scheme (RFC 9110 section 5.6.2).
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c))
}

/// header_value returns the values of a header, joined by a comma. The case of the name does not matter.
pub fn header_value(headers: &[Pair], name: &str) -> Option<String> {
    let values: Vec<&str> = headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.as_str()).collect();
    if values.is_empty() {
        return None;
    }
    Some(values.join(", "))
}

// JSON.

/// Members builds a JSON object, member by member. raw adds a member that is JSON, string one with a string, optional one that is not empty,
/// flag one that is true, and pairs and strings a list that is not empty.
#[derive(Default)]
pub struct Members(String);

impl Members {
    pub fn json(&self) -> String {
        format!("{{{}}}", self.0)
    }

    pub fn raw(&mut self, name: &str, json: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&quote(name));
        self.0.push(':');
        self.0.push_str(json);
    }

    pub fn string(&mut self, name: &str, value: &str) {
        self.raw(name, &quote(value));
    }

    pub fn optional(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.string(name, value);
        }
    }

    pub fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.raw(name, "true");
        }
    }

    pub fn strings(&mut self, name: &str, list: &[String]) {
        self.list(name, list.iter().map(|text| quote(text)).collect());
    }

    pub fn pairs(&mut self, name: &str, list: &[Pair]) {
        self.list(name, list.iter().map(|p| format!("{{\"name\":{},\"value\":{}}}", quote(&p.name), quote(&p.value))).collect());
    }

    fn list(&mut self, name: &str, elements: Vec<String>) {
        if !elements.is_empty() {
            self.raw(name, &format!("[{}]", elements.join(",")));
        }
    }
}

/// quote returns a text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.push('\\'),
            '\0'..='\x1f' => {
                let digits = b"0123456789abcdef";
                json.push_str("\\u00");
                json.push(digits[c as usize >> 4] as char);
                json.push(digits[c as usize & 15] as char);
                continue;
            }
            _ => {}
        }
        json.push(c);
    }
    json.push('"');
    json
}

/// each returns the members of a JSON object, or the elements of a list, which have no names. The values are JSON. It ends where the text is
/// not JSON.
pub fn each(json: &str) -> Each<'_> {
    Each { rest: json.trim_start(), object: false, begun: false }
}

/// Each is the iterator of [each].
pub struct Each<'a> {
    rest: &'a str,
    object: bool,
    begun: bool,
}

impl<'a> Iterator for Each<'a> {
    type Item = (String, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.rest.as_bytes().first()?;
        if !self.begun {
            self.object = first == b'{';
        }
        if if self.begun { first != b',' } else { first != b'{' && first != b'[' } {
            return None;
        }
        self.begun = true;
        let mut rest = self.rest[1..].trim_start();
        let mut name = String::new();
        if self.object {
            let (key, tail) = rest.split_at(end(rest));
            name = text(key);
            rest = tail.trim_start().strip_prefix(':')?.trim_start();
        }
        let (value, tail) = rest.split_at(end(rest));
        self.rest = tail.trim_start();
        if value.is_empty() {
            return None;
        }
        Some((name, value))
    }
}

/// end returns the length of the JSON value at the beginning of a text.
fn end(json: &str) -> usize {
    let (bytes, mut i, mut depth) = (json.as_bytes(), 0, 0);
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                i += 1;
                while i < bytes.len() && bytes[i] != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                if depth == 0 {
                    return bytes.len().min(i + 1);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => match depth {
                0 => return i,
                1 => return i + 1,
                _ => depth -= 1,
            },
            c if depth == 0 && (c == b',' || c == b':' || c <= b' ') => return i,
            _ => {}
        }
        i += 1;
    }
    bytes.len()
}

/// text returns a JSON string decoded, and other JSON as it is.
pub fn text(json: &str) -> String {
    let inner = match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner,
        None => return json.into(),
    };
    let (mut out, mut rest) = (String::with_capacity(inner.len()), inner);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let c = rest[at + 1..].chars().next().unwrap_or('\\');
        rest = rest.get(at + 1 + c.len_utf8()..).unwrap_or_default();
        out.push(match c {
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let mut code = unit(rest);
                rest = rest.get(4..).unwrap_or_default();
                if let (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) = (code, rest.strip_prefix("\\u").map(unit)) {
                    code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
                    rest = rest.get(6..).unwrap_or_default();
                }
                char::from_u32(code).unwrap_or('\u{fffd}') // half of a surrogate pair is none
            }
            c => c,
        });
    }
    out.push_str(rest);
    out
}

/// unit returns the number of the four hexadecimal digits at the beginning of a text.
fn unit(text: &str) -> u32 {
    text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0xfffd)
}

/// integer returns the number at the beginning of a text, or 0.
pub fn integer(text: &str) -> i64 {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let n = digits.bytes().take_while(u8::is_ascii_digit).fold(0i64, |n, c| n.wrapping_mul(10).wrapping_add((c - b'0') as i64));
    if digits.len() < text.len() { n.wrapping_neg() } else { n }
}

/// pairs returns the members of a JSON object whose values are texts or numbers, or those of a list of objects with name and value.
pub fn pairs(json: &str) -> Vec<Pair> {
    let mut list = Vec::new();
    for (name, value) in each(json) {
        let mut p = pair(name, text(value));
        if json.trim_start().starts_with('[') {
            for (member, value) in each(value) {
                match member.as_str() {
                    "name" => p.name = text(value),
                    "value" => p.value = text(value),
                    _ => {}
                }
            }
        }
        list.push(p);
    }
    list
}

/// get returns the value of a name, or "".
pub fn get<'a>(list: &'a [Pair], name: &str) -> &'a str {
    list.iter().find(|p| p.name == name).map_or("", |p| p.value.as_str())
}
