//! Plugin grant keeps a grant that users give in a browser: a refresh token that may be used once.
#[path = "../../../sdk/rust/keywright.rs"]
mod keywright;
use keywright::*;

exports!(describe, consent, connect, authenticate, disconnect);

fn describe() -> &'static str {
    r#"{
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
    }"#
}

fn consent() -> Consent {
    Consent {
        url: config("authorization_url"),
        query: vec![pair("client_id", config("client_id")), pair("scope", "read \"all\" & é")],
        issuer: "https://login.test".into(),
        iss_required: true,
        push: Some(config("par_url")).filter(|url: &String| !url.is_empty()).map(|url| Push {
            url,
            form: vec![pair("client_secret", config("secret"))],
            headers: vec![pair("X-Version", "2")],
        }),
        ..Default::default()
    }
}

fn ask(form: Vec<Pair>) -> Result<Answers, String> {
    let reply = exchange(&Exchange { url: config("token_url"), form, headers: vec![pair("Accept", "application/json")], ..Default::default() });
    if reply.status != 200 {
        return Err(format!("the token endpoint answered {}", reply.status));
    }
    Ok(reply)
}

fn connect() -> Result<(), String> {
    let c = code();
    ask(vec![pair("grant_type", "authorization_code"), pair("code", c.code), pair("code_verifier", c.verifier), pair("redirect_uri", c.redirect_uri)])?;
    Ok(())
}

fn authenticate() -> Result<Mutation, String> {
    if let Some(token) = cached("access_token") {
        return Ok(bearer(&token));
    }
    let refresh = state("refresh_token").ok_or("there is no refresh token")?;
    let reply = ask(vec![pair("grant_type", "refresh_token"), pair("refresh_token", refresh)])?;
    let token = reply.get("access_token");
    cache("access_token", token, integer(reply.get("expires_in")));
    Ok(bearer(token))
}

fn disconnect() {
    exchange(&Exchange {
        url: config("token_url"),
        method: "DELETE".into(),
        path: vec!["grants".into(), "a/b".into()],
        query: vec![pair("all", "1")],
        json: format!("{{\"token\":{}}}", quote(&state("refresh_token").unwrap_or_default())),
        ..Default::default()
    });
}
