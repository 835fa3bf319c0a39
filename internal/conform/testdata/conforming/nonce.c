// It sends a nonce of WASI's random bytes, as plugins in other languages do.
#include "keywright.h"

__attribute__((import_module("wasi_snapshot_preview1"), import_name("random_get"))) int32_t random_get(void *bytes, int32_t length);

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "nonce",
		"version": "1.0.0",
		"summary": "Sends a key and a nonce.",
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]},
			{"name": "mode", "kind": "string", "enum": ["one", "two"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	int64_t number = 0;
	random_get(&number, sizeof number);
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Nonce"), kw_decimal(number)}};
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
