// Its error has the key in it.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "tells",
		"version": "1.0.0",
		"summary": "Names the key in an error.",
		"uses": ["token", "cache"],
		"fields": [
			{"name": "token_url", "kind": "url", "required": true, "sinks": ["token"]},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header", "token"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text token = kw_cached(KW("token")), key = kw_config(KW("key"));
	struct kw_pair form[] = {{KW("key"), key}};
	if (!token) {
		struct kw_token issued = kw_request_token((struct kw_token_request){.url = kw_config(KW("token_url")), .form = {form, 1}});
		if (issued.failure) return kw_fail(KW_JOIN(KW("no token for "), key));
		kw_cache(KW("token"), token = issued.access_token, 60);
	}
	return kw_mutate(kw_bearer(token));
}
