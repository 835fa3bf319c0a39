// It traps if the challenge of the API has no nonce.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1,
		"type": "hopes",
		"version": "1.0.0",
		"summary": "Hashes the nonce of a challenge.",
		"challenge": {"statuses": [401], "answers": [{"name": "nonce", "from": "auth:Acme/nonce", "kind": "sealed", "sinks": ["header"]}]},
		"fields": [
			{"name": "key", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]}
		]
	}));
}

KW_EXPORT(authenticate) {
	struct kw_answers challenge = kw_challenge();
	struct kw_pair headers[] = {{KW("X-Key"), kw_config(KW("key"))}, {KW("X-Nonce"), kw_get(challenge.answers, KW("nonce"))}};
	if (!challenge.status) return kw_mutate((struct kw_mutation){.headers = {headers, 1}});
	if (!headers[1].value) kw_trap(KW("there is no nonce"));
	return kw_mutate((struct kw_mutation){.headers = {headers, 2}});
}
