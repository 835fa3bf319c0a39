//! Plugin acme_hmac in Rust. It is the same auth type as examples/acme_hmac, which says what is signed.

#[path = "../../sdk/rust/keywright.rs"]
mod keywright;
use keywright::*;

exports!(describe, validate, authenticate);

fn describe() -> &'static str {
    r#"{
        "abi": 1,
        "type": "acme_hmac",
        "version": "1.0.0",
        "summary": "An HMAC over method, path, time and body, for Acme's API.",
        "uses": ["sign", "body"],
        "fields": [
            {"name": "key_id", "kind": "string", "required": true, "sinks": ["header"], "doc": "Which key the request is signed with."},
            {"name": "secret", "kind": "string", "required": true, "sealed": true, "sinks": ["sign"], "derived": ["header"], "doc": "The shared secret."}
        ]
    }"#
}

const NO_TOKEN: &str = "has a character that is neither a letter nor a digit nor one of !#$%&'*+-.^_`|~";

fn validate() -> Vec<Problem> {
    match literal("key_id") {
        Some(key_id) if !is_token(&key_id) => vec![problem("key_id", NO_TOKEN)],
        _ => vec![],
    }
}

fn authenticate() -> Result<Mutation, String> {
    if !is_token(&config("key_id")) {
        return Err(format!("key_id {NO_TOKEN}")); // it came from a template
    }
    let message = compose("{method}\n{target}\n{timestamp}\n{body|sha256|hex}");
    let signature = hex(mac(MAC_SHA256, config("secret"), message));
    Ok(header("Authorization", compose("ACME-HMAC-SHA256 key={config:key_id}, time={timestamp}, signature=") + &signature))
}
