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
	kw_text message = kw_compose(KW("{method}\n{target}\n{timestamp}\n{body|sha256|hex}"));
	kw_text signature = kw_hex(kw_mac(KW_MAC_SHA256, kw_config(KW("secret")), message));
	return kw_mutate(kw_header(KW("Authorization"), KW_JOIN(kw_compose(KW("ACME-HMAC-SHA256 key={config:key_id}, time={timestamp}, signature=")), signature)));
}
