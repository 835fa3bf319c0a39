// It asks for a token until it has one.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "insists",
		"version": "1.0.0",
		"summary": "Asks until there is a token.",
		"uses": ["token", "cache"],
		"fields": [
			{"name": "token_url", "kind": "url", "required": true, "sinks": ["token"]},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header", "token"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text token = kw_cached(KW("token"));
	struct kw_pair form[] = {{KW("key"), kw_config(KW("key"))}};
	while (!token) {
		token = kw_request_token((struct kw_token_request){.url = kw_config(KW("token_url")), .form = {form, 1}}).access_token;
		if (token) kw_cache(KW("token"), token, 60);
	}
	return kw_mutate(kw_bearer(token));
}
