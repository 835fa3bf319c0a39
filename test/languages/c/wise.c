// Plugin wise sends a token, and signs the one-time text with which Wise refuses a request that needs strong customer authentication.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1, "type": "wise", "version": "1.0.0", "summary": "A token, and a signature of a one-time text.", "uses": ["sign"],
		"fields": [
			{"name": "token", "kind": "string", "required": true, "sealed": true, "sinks": ["header"]},
			{"name": "private_key", "kind": "key", "required": true, "algorithm_field": "algorithm", "purposes": ["message"], "derived": ["header"]},
			{"name": "algorithm", "kind": "string", "enum": ["RS256"], "default": "RS256"}
		],
		"challenge": {"statuses": [403], "answers": [
			{"name": "code", "from": "header:x-2fa-approval", "kind": "sealed", "sinks": ["header", "digest"], "pattern": "[0-9a-f-]{36}"}
		]}
	}));
}

KW_EXPORT(authenticate) {
	struct kw_answers refusal = kw_challenge();
	kw_text code = kw_get(refusal.answers, KW("code")), authorization = KW_JOIN(KW("Bearer "), kw_config(KW("token")));
	if (!refusal.status) return kw_mutate(kw_header(KW("Authorization"), authorization));
	if (!code) return kw_mutate((struct kw_mutation){.pass = true}); // refused for another reason
	kw_text signature = kw_base64(kw_sign_sealed(KW("private_key"), KW("message"), code));
	return kw_mutate((struct kw_mutation){.headers = KW_PAIRS(
		{KW("Authorization"), authorization}, {KW("X-2FA-Approval"), code}, {KW("X-Signature"), signature})});
}
