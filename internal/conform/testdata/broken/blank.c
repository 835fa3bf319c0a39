// It traps if the prefix is blank.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "blank",
		"version": "1.0.0",
		"summary": "Sends a key with a prefix.",
		"fields": [
			{"name": "prefix", "kind": "string", "default": "Acme"},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text prefix = kw_config(KW("prefix"));
	if (!kw_length(prefix)) kw_trap(KW("there is no prefix"));
	return kw_mutate(kw_header(KW("Authorization"), KW_JOIN(prefix, KW(" "), kw_config(KW("key")))));
}
