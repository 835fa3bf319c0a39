// It traps if the path has other characters than those of ASCII.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "ascii",
		"version": "1.0.0",
		"summary": "Sends a key and the length of the URL.",
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	struct kw_request request = kw_request();
	kw_text path = kw_split(request.url, 0, 0);
	if (kw_find(path, 0, KW("%")) < path->length) kw_trap(KW("the path is not ASCII"));
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Length"), kw_decimal(path->length)}};
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
