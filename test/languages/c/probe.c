// Plugin probe calls what the other plugins of these tests do not, and sends in headers what it has got.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
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
	}));
}

static kw_text texts(struct kw_pairs pairs) {
	kw_text all = 0;
	for (uint32_t i = 0; i < pairs.length; i++) all = KW_JOIN(all, pairs.at[i].name, KW("="), pairs.at[i].value, KW("\n"));
	return kw_base64(all);
}

KW_EXPORT(authenticate) {
	int64_t count = kw_counter(7);
	struct kw_token token = kw_request_token((struct kw_token_request){
		.url = kw_config(KW("token_url")), .form = KW_PAIRS({KW("scope"), KW("a b")}, {KW("secret"), kw_secret(KW("probe"))}),
		.headers = KW_PAIRS({KW("X-Probe"), KW("1")}), .extra = KW_TEXTS(KW("instance"), KW("unknown")),
	});
	if (token.failure) return kw_fail(token.failure);
	struct kw_members claims = {0};
	kw_string(&claims, KW("iss"), KW("\"me\""));
	kw_string(&claims, KW("exp"), kw_decimal(kw_now() + 60));
	kw_raw(&claims, KW("list"), KW("[1,2]"));
	kw_flag(&claims, KW("flag"), true);
	kw_flag(&claims, KW("none"), false);
	kw_optional(&claims, KW("empty"), KW(""));
	struct kw_jwt jwt = {.key = KW("key"), .header = KW("{\"kid\":\"k1\"}"), .claims = kw_object(&claims), .integers = KW_TEXTS(KW("exp"))};
	struct kw_jws jws = {
		.key = KW("signer"), .header = KW("{\"iat\":\"7\"}"), .crit = KW_TEXTS(KW("iat")), .integers = KW_TEXTS(KW("iat")), .payload = kw_body(), .unencoded = true,
	};
	kw_text list = 0, object = kw_config(KW("texts"));
	KW_EACH(e, KW(" [1 , {\"a\":[\"]\",{}]}, \"x,\\\"y\" ,[],null] ")) list = KW_JOIN(list, e.value, KW(";"));
	kw_text decoded = kw_value(KW("\"\\ud83d\\ude00\\u00e9\\u20ac\\u0041\\/\\\\\\\"\\b\\f\\n\\r\\t \\ud83d \\u0007\""));

	struct kw_pairs form = kw_body_form();
	struct kw_request request = kw_request();
	kw_text scheme, authority, target = kw_split(request.url, &scheme, &authority), none = kw_header_value(request.headers, KW("X-None"));
	kw_debug(KW("debug é"));
	kw_info(KW("info"));
	kw_warn(KW("warn"));
	return kw_mutate((struct kw_mutation){
		.headers = KW_PAIRS(
			{KW("Authorization"), KW_JOIN(KW("Bearer "), token.access_token)}, {KW("X-JWT"), kw_sign_jwt(jwt)}, {KW("X-JWS"), kw_sign_jws(jws)},
			{KW("X-Attached"), kw_sign_jws((struct kw_jws){.key = KW("signer"), .payload = KW("{}"), .attached = true})},
			{KW("X-Extra"), kw_get(token.extra, KW("instance"))}, {KW("X-Unknown"), kw_base64(kw_get(token.extra, KW("unknown")))},
			{KW("X-Token"), KW_JOIN(token.token_type, KW(" "), kw_decimal(token.expires_in), KW(" "), kw_decimal(-kw_clock_offset() - 9223372036854775807), KW(" "), kw_decimal(count))},
			{KW("X-Texts"), texts(kw_pairs(object))}, {KW("X-List"), kw_base64(list)}, {KW("X-Decoded"), kw_base64(decoded)},
			{KW("X-Form"), texts(form)}, {KW("X-Many"), kw_header_value(request.headers, KW("x-mANY"))}, {KW("X-None"), none ? none : KW("no")},
			{KW("X-Length"), kw_decimal(request.content_length)}, {KW("X-Millis"), kw_decimal(kw_now_millis())},
			{KW("X-URL"), KW_JOIN(scheme, KW(" "), authority, KW(" "), target)}, {KW("X-Absent"), kw_config(KW("absent")) ? KW("there") : KW("absent")},
			{KW("X-Encoded"), KW_JOIN(kw_base32(KW("é?")), KW(" "), kw_hex_upper(KW("é?")), KW(" "), kw_percent(KW("é?")), KW(" "), kw_form_encode(KW("é? ")), KW(" "),
				kw_quoted(KW("e\"")), KW(" "), kw_base64_url(KW("?>?")))},
			{KW("X-Composed"), KW_JOIN(kw_compose(KW("{scheme} {target}")), KW(" "), kw_compose_later(KW("{header:X-A} {query} {v} {body|sha256|hex}"),
				(struct kw_mutation){.headers = KW_PAIRS({KW("x-a"), KW("1")}), .query = KW_PAIRS({KW("b"), KW("&")}), .form = KW_PAIRS({KW("f"), KW("&")})}, KW_PAIRS({KW("v"), KW("{\"}")})))},
			{KW("X-Object"), kw_base64(kw_compose_object(KW(" {\"a\": [\"{v}\", 1, {\"{v}\": \"\\\\{\\\"é\"}, []], \"b\": null} "), kw_one(KW("v"), KW("V"))))},
			{KW("X-Parts"), texts(kw_parts(KW("parts")))}),
		.query = KW_PAIRS({KW("q"), KW("a&b")}, {KW("jwt"), kw_sign_query_jwt(jwt)}),
	});
}
