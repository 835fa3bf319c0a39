// It sends the same once more when the API has refused it.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "stubborn",
		"version": "1.0.0",
		"summary": "Sends the same again.",
		"challenge": {"statuses": [401, 403]},
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) { return kw_mutate(kw_header(KW("X-Key"), kw_config(KW("key")))); }
