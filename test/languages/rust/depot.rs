//! Plugin depot_rust is depot_c of c/depot.c in Rust.
#[path = "../../../sdk/rust/keywright.rs"]
mod keywright;
use keywright::*;

exports!(describe, authenticate);

/// MARGIN is the time before the end of a session in which it is not used, in seconds.
const MARGIN: i64 = 60;

fn describe() -> &'static str {
    r#"{
        "abi": 1, "type": "depot_rust", "version": "1.0.0", "summary": "A session of Depot, with signed requests, in Rust.",
        "uses": ["token", "cache", "sign", "body"],
        "fields": [
            {"name": "url", "kind": "url", "required": true, "sinks": ["token"], "doc": "URL of the API."},
            {"name": "user", "kind": "string", "required": true, "sinks": ["token", "digest"], "doc": "Name of the user."},
            {"name": "password", "kind": "string", "required": true, "sealed": true, "sinks": ["digest"], "derived": ["token"], "doc": "Password. Its digest is sent."},
            {"name": "device_key", "kind": "key", "generate": true, "algorithm_field": "device_algorithm", "purposes": ["message"], "derived": ["header"], "doc": "Key of this device. If it is absent, the host makes one."},
            {"name": "device_algorithm", "kind": "string", "enum": ["EdDSA", "ES256"], "default": "EdDSA", "doc": "Algorithm of the key."}
        ],
        "answers": [
            {"name": "session", "from": "cookie:SESSION", "kind": "sealed", "sinks": ["header"], "required": true},
            {"name": "workspace", "from": "json:/workspace", "kind": "sealed", "sinks": ["path"], "required": true},
            {"name": "api", "from": "json:/api", "kind": "sealed", "sinks": ["url"], "required": true},
            {"name": "secret", "from": "json:/secret", "kind": "sealed", "sinks": ["sign"], "derived": ["header"], "required": true},
            {"name": "expires_in", "from": "json:/expires_in", "kind": "integer", "required": true}
        ],
        "challenge": {"statuses": [401], "keep": 300, "answers": [
            {"name": "nonce", "from": "header:Depot-Nonce", "kind": "sealed", "sinks": ["header", "digest"], "keep": true},
            {"name": "error", "from": "header:Depot-Error", "kind": "enum", "enum": ["use_nonce"]}
        ]}
    }"#
}

/// log_in returns session, workspace, secret and URL of a login, separated by spaces, and stores them in the cache.
fn log_in() -> Result<String, String> {
    let user = config("user");
    let mut login = Members::default();
    login.string("proof", &hex(digest(DIGEST_SHA256, format!("{user}:{}", config("password")))));
    login.string("user", &user);
    login.raw("device", &public_key("device_key", JWK));
    let reply = exchange(&Exchange { url: config("url"), path: vec!["sessions".into()], json: login.json(), ..Default::default() });
    let session = [reply.get("session"), reply.get("workspace"), reply.get("secret"), reply.get("api")].join(" ");
    let seconds = integer(reply.get("expires_in")) - MARGIN;
    if seconds > 0 {
        cache("session", &session, seconds);
    }
    if reply.status / 100 != 2 {
        return Err(format!("the login was answered with {}", reply.status));
    }
    Ok(session)
}

fn authenticate() -> Result<Mutation, String> {
    let challenge = challenge();
    if challenge.status == 401 && challenge.get("error") != "use_nonce" && !drop("session") {
        return Ok(Mutation { pass: true, ..Default::default() }); // another session would not help
    }
    let session = match cached("session") {
        Some(session) => session,
        None => log_in()?,
    };
    let parts: Vec<&str> = session.split(' ').collect();
    let (cookie, workspace, secret) = (parts[0], parts[1], parts[2]);

    // From here on the plugin knows its request, so it may use neither the cache nor an endpoint.
    let (once, method, body) = (random(8), request().method, hex(digest(DIGEST_SHA256, body())));
    let message = format!("depot/1\n{method}\n{body}\n{once}\n{}", challenge.get("nonce"));
    let tag = mac(MAC_SHA256, decode("base64", secret), &message);
    let proof = sign_sealed("device_key", FOR_MESSAGE, &message);
    Ok(Mutation {
        headers: vec![pair("Depot-Once", once), pair("Depot-MAC", base64(tag)), pair("Depot-Proof", base64_url(proof))],
        cookies: vec![pair("SESSION", cookie)],
        path: vec![pair("{workspace}", workspace)],
        url: parts[3].into(),
        ..Default::default()
    })
}
