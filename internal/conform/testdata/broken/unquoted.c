// It puts a secret between quotes, and does not escape the quotes in it.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "unquoted",
		"version": "1.0.0",
		"summary": "Sends a key between quotes.",
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	return kw_mutate(kw_header(KW("Authorization"), KW_JOIN(KW("Acme key=\""), kw_config(KW("key")), KW("\", version=1"))));
}
