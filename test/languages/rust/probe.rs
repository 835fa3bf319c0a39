//! Plugin probe calls what the other plugins of these tests do not, and sends in headers what it has got.
#[path = "../../../sdk/rust/keywright.rs"]
mod keywright;
use keywright::*;

exports!(describe, authenticate);

fn describe() -> &'static str {
    r#"{
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
    }"#
}

fn texts(pairs: &[Pair]) -> String {
    base64(pairs.iter().map(|p| format!("{}={}\n", p.name, p.value)).collect::<String>())
}

fn jwt() -> JWT {
    let mut claims = Members::default();
    claims.string("iss", "\"me\"");
    claims.string("exp", &(now() + 60).to_string());
    claims.raw("list", "[1,2]");
    claims.flag("flag", true);
    claims.flag("none", false);
    claims.optional("empty", "");
    JWT { key: "key".into(), header: r#"{"kid":"k1"}"#.into(), claims: claims.json(), integers: vec!["exp".into()] }
}

fn jws() -> JWS {
    let names = vec!["iat".to_string()];
    JWS { key: "signer".into(), header: r#"{"iat":"7"}"#.into(), crit: names.clone(), integers: names, payload: body(), unencoded: true, ..Default::default() }
}

fn authenticate() -> Result<Mutation, String> {
    let count = counter(7);
    let token = request_token(&TokenRequest {
        url: config("token_url"),
        form: vec![pair("scope", "a b"), pair("secret", secret("probe"))],
        headers: vec![pair("X-Probe", "1")],
        extra: vec!["instance".into(), "unknown".into()],
    })?;
    let (jwt, object) = (jwt(), config("texts"));
    let list: String = each(r#" [1 , {"a":["]",{}]}, "x,\"y" ,[],null] "#).map(|(_, value)| value.to_owned() + ";").collect();
    let decoded = text(r#""\ud83d\ude00\u00e9\u20ac\u0041\/\\\"\b\f\n\r\t \ud83d \u0007""#);

    let form = body_form().unwrap_or_default();
    let request = request();
    let (scheme, authority, target) = request.split();
    debug("debug é");
    info("info");
    warn("warn");
    let added = Mutation { headers: vec![pair("x-a", "1")], query: vec![pair("b", "&")], form: vec![pair("f", "&")], ..Default::default() };
    let headers = vec![
        pair("Authorization", format!("Bearer {}", token.access_token)),
        pair("X-JWT", sign_jwt(&jwt)),
        pair("X-JWS", sign_jws(&jws())),
        pair("X-Attached", sign_jws(&JWS { key: "signer".into(), payload: "{}".into(), attached: true, ..Default::default() })),
        pair("X-Extra", get(&token.extra, "instance")),
        pair("X-Unknown", base64(get(&token.extra, "unknown"))),
        pair("X-Token", format!("{} {} {} {}", token.token_type, token.expires_in, -clock_offset() - i64::MAX, count)),
        pair("X-Texts", texts(&pairs(&object))),
        pair("X-List", base64(list)),
        pair("X-Decoded", base64(decoded)),
        pair("X-Form", texts(&form)),
        pair("X-Many", header_value(&request.headers, "x-mANY").unwrap_or_default()),
        pair("X-None", header_value(&request.headers, "X-None").unwrap_or("no".into())),
        pair("X-Length", request.content_length.to_string()),
        pair("X-Millis", now_millis().to_string()),
        pair("X-URL", format!("{scheme} {authority} {target}")),
        pair("X-Absent", if config("absent").is_empty() { "absent" } else { "there" }),
        pair("X-Encoded", [base32("é?"), hex_upper("é?"), percent("é?"), form_encode("é? "), quoted("e\""), base64_url("?>?")].join(" ")),
        pair("X-Composed", compose("{scheme} {target}") + " " + &compose_later("{header:X-A} {query} {v} {body|sha256|hex}", &added, &[pair("v", "{\"}")])),
        pair("X-Object", base64(compose_object(r#" {"a": ["{v}", 1, {"{v}": "\\{\"é"}, []], "b": null} "#, &[pair("v", "V")]))),
        pair("X-Parts", texts(&parts("parts"))),
    ];
    Ok(Mutation { headers, query: vec![pair("q", "a&b"), pair("jwt", sign_query_jwt(&jwt))], ..Default::default() })
}
