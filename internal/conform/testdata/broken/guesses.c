// It takes the text of a reference for a random number.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "guesses",
		"version": "1.0.0",
		"summary": "Makes a nonce of a reference.",
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	kw_text key = kw_config(KW("key"));
	struct kw_pair headers[] = {{KW("X-Key"), key}, {KW("X-Nonce"), kw_slice(key, 5, 13)}};
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
