// It does so much for each request that a little more would be too much.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "hungry",
		"version": "1.0.0",
		"summary": "Does much for each request.",
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

// work adds up numbers.
static __attribute__((noinline)) uint32_t work(uint32_t count) {
	volatile uint32_t sum = 0;
	for (uint32_t i = 0; i < count; i++) sum += i;
	return sum;
}

KW_EXPORT(authenticate) {
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Sum"), kw_decimal(work(210000))}};
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
