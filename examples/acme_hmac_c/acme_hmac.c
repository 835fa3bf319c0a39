// Plugin acme_hmac in C. It is the same auth type as examples/acme_hmac, which says what is signed.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "acme_hmac",
		"version": "1.0.0",
		"summary": "An HMAC over method, path, time and body, for Acme's API.",
		"uses": ["sign", "body"],
		"fields": [
			{"name": "key_id", "kind": "string", "required": true, "sinks": ["header"], "doc": "Which key the request is signed with."},
			{"name": "secret", "kind": "string", "required": true, "sealed": true, "sinks": ["sign"], "derived": ["header"], "doc": "The shared secret."}
		]
	}));
}

#define NO_TOKEN KW("has a character that is neither a letter nor a digit nor one of !#$%&'*+-.^_`|~")

KW_EXPORT(validate) {
	kw_text problems = 0, key_id = kw_config(KW("key_id"));
	if (key_id && !kw_is_token(key_id)) kw_problem(&problems, KW("key_id"), NO_TOKEN);
	return kw_problems(problems);
}

KW_EXPORT(authenticate) {
	kw_text key_id = kw_config(KW("key_id"));
	if (!kw_is_token(key_id)) return kw_fail(KW_JOIN(KW("key_id "), NO_TOKEN)); // it came from a template
	struct kw_request request = kw_request();
	kw_text body = kw_hex(kw_digest(KW_DIGEST_SHA256, kw_body()));
	kw_text now = kw_decimal(kw_now());
	kw_text message = KW_JOIN(request.method, KW("\n"), kw_split(request.url, 0, 0), KW("\n"), now, KW("\n"), body);
	kw_text signature = kw_hex(kw_mac(KW_SHA256, kw_config(KW("secret")), message));
	kw_text value = KW_JOIN(KW("ACME-HMAC-SHA256 key="), key_id, KW(", time="), now, KW(", signature="), signature);
	return kw_mutate(kw_header(KW("Authorization"), value));
}
