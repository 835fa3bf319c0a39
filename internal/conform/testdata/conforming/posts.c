// It takes requests with a body only, as an API that has nothing but POST.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "posts",
		"version": "1.0.0",
		"summary": "Sends a key with requests that have a body.",
		"fields": [{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}]
	}));
}

KW_EXPORT(authenticate) {
	if (kw_length(kw_compose(KW("{content_length}"))) < 2) return kw_fail(KW("a body is wanted"));
	return kw_mutate(kw_header(KW("X-Key"), kw_config(KW("key"))));
}
