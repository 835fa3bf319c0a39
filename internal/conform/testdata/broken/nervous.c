// Its validate traps if the name is a long one.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "nervous",
		"version": "1.0.0",
		"summary": "Sends a key and a name.",
		"fields": [
			{"name": "name", "kind": "string", "sinks": ["header"]},
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(validate) {
	if (kw_length(kw_config(KW("name"))) > 256) kw_trap(KW("the name is too long"));
	return 0;
}

KW_EXPORT(authenticate) {
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Name"), kw_config(KW("name"))}};
	return kw_mutate((struct kw_mutation){.headers = {headers, headers[1].value ? 2 : 1}});
}
