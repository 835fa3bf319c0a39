// It traps if the prefix has one character.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "short",
		"version": "1.0.0",
		"summary": "Sends a key with a prefix.",
		"fields": [
			{"name": "prefix", "kind": "string", "required": true},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text prefix = kw_config(KW("prefix"));
	if (kw_length(prefix) == 1) kw_trap(KW("there is no second character"));
	return kw_mutate(kw_header(KW("Authorization"), KW_JOIN(prefix, KW(" "), kw_config(KW("key")))));
}
