// It fails for each request, and validate does not say why.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "refuses",
		"version": "1.0.0",
		"summary": "Fails for each request.",
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) { return kw_fail(KW("this is not done yet")); }
