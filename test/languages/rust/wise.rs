//! Plugin wise sends a token, and signs the one-time text with which Wise refuses a request that needs strong customer authentication.
#[path = "../../../sdk/rust/keywright.rs"]
mod keywright;
use keywright::*;

exports!(describe, authenticate);

fn describe() -> &'static str {
    r#"{
        "abi": 1, "type": "wise", "version": "1.0.0", "summary": "A token, and a signature of a one-time text.", "uses": ["sign"],
        "fields": [
            {"name": "token", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]},
            {"name": "private_key", "kind": "key", "required": true, "algorithm_field": "algorithm", "purposes": ["message"], "derived": ["header"]},
            {"name": "algorithm", "kind": "string", "enum": ["RS256"], "default": "RS256"}
        ],
        "challenge": {"statuses": [403], "answers": [
            {"name": "code", "from": "header:x-2fa-approval", "kind": "sealed", "sinks": ["header", "digest"], "pattern": "[0-9a-f-]{36}"}
        ]}
    }"#
}

fn authenticate() -> Mutation {
    let refusal = challenge();
    let code = refusal.get("code");
    if refusal.status != 0 && code.is_empty() {
        return Mutation { pass: true, ..Default::default() }; // refused for another reason
    }
    let mut m = bearer(&config("token"));
    if refusal.status != 0 {
        m.headers.push(pair("X-2FA-Approval", &code[..]));
        m.headers.push(pair("X-Signature", base64(sign_sealed("private_key", "message", &code[..]))));
    }
    m
}
