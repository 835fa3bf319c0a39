// It takes a token out of any answer, also out of a refusal.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "believes",
		"version": "1.0.0",
		"summary": "Takes a token out of any answer.",
		"uses": ["token", "cache"],
		"answers": [{"name": "token", "from": "json:/token", "kind": "sealed", "sinks": ["header"]}],
		"fields": [
			{"name": "token_url", "kind": "url", "required": true, "sinks": ["token"]},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header", "token"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text token = kw_cached(KW("token"));
	struct kw_pair form[] = {{KW("key"), kw_config(KW("key"))}};
	if (!token) {
		struct kw_answers reply = kw_exchange((struct kw_exchange){.url = kw_config(KW("token_url")), .form = {form, 1}});
		token = kw_get(reply.answers, KW("token"));
		if (!token) return kw_fail(KW("there is no token in the answer"));
		kw_cache(KW("token"), token, 60);
	}
	return kw_mutate(kw_bearer(token));
}
