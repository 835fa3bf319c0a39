// It counts the requests in the cache, and sends the number.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "counts",
		"version": "1.0.0",
		"summary": "Counts requests.",
		"uses": ["cache"],
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text count = kw_decimal(kw_integer(kw_cached(KW("count"))) + 1);
	kw_cache(KW("count"), count, 3600);
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Count"), count}};
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
