// It compares each word of the scope with each other one.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "slow",
		"version": "1.0.0",
		"summary": "Sends a key and a scope without repeated characters.",
		"fields": [
			{"name": "scope", "kind": "string"},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text scope = kw_config(KW("scope"));
	uint32_t repeated = 0;
	for (uint32_t i = 0; i < kw_length(scope); i++)
		for (uint32_t k = 0; k < i; k++) repeated += scope->at[i] == scope->at[k];
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Repeated"), kw_decimal(repeated)}};
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
