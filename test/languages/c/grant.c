// Plugin grant keeps a grant that users give in a browser: a refresh token that may be used once.
#include "keywright.h"

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1, "type": "grant", "version": "1.0.0", "summary": "A grant of a user.", "uses": ["token", "cache", "state"], "consent": true,
		"fields": [
			{"name": "authorization_url", "kind": "url", "required": true},
			{"name": "token_url", "kind": "url", "required": true},
			{"name": "client_id", "kind": "string", "required": true},
			{"name": "par_url", "kind": "url"},
			{"name": "secret", "kind": "string", "sealed": true, "sinks": ["token"]}
		],
		"answers": [
			{"name": "refresh_token", "from": "json:/refresh_token", "kind": "sealed", "sinks": ["token"], "required": true, "state": "refresh_token"},
			{"name": "access_token", "from": "json:/access_token", "kind": "sealed", "sinks": ["header"], "required": true},
			{"name": "expires_in", "from": "json:/expires_in", "kind": "integer"}
		],
		"state": [{"name": "refresh_token"}]
	}));
}

KW_EXPORT(consent) {
	return kw_ask((struct kw_consent){
		.url = kw_config(KW("authorization_url")), .issuer = KW("https://login.test"), .iss_required = true,
		.query = KW_PAIRS({KW("client_id"), kw_config(KW("client_id"))}, {KW("scope"), KW("read \"all\" & é")}),
		.push = {
			.url = kw_config(KW("par_url")), .form = KW_PAIRS({KW("client_secret"), kw_config(KW("secret"))}),
			.headers = KW_PAIRS({KW("X-Version"), KW("2")}),
		},
	});
}

static struct kw_answers ask(struct kw_pairs form) {
	return kw_exchange((struct kw_exchange){
		.url = kw_config(KW("token_url")), .form = form, .headers = KW_PAIRS({KW("Accept"), KW("application/json")}),
	});
}

static kw_text refused(struct kw_answers reply) {
	return reply.status == 200 ? 0 : KW_JOIN(KW("the token endpoint answered "), kw_decimal(reply.status));
}

KW_EXPORT(connect) {
	struct kw_code code = kw_code();
	kw_text failure = refused(ask(KW_PAIRS(
		{KW("grant_type"), KW("authorization_code")}, {KW("code"), code.code},
		{KW("code_verifier"), code.verifier}, {KW("redirect_uri"), code.redirect_uri})));
	return failure ? kw_fail(failure) : 0;
}

KW_EXPORT(authenticate) {
	kw_text token = kw_cached(KW("access_token"));
	if (!token) {
		kw_text refresh = kw_state(KW("refresh_token"));
		if (!refresh) return kw_fail(KW("there is no refresh token"));
		struct kw_answers reply = ask(KW_PAIRS({KW("grant_type"), KW("refresh_token")}, {KW("refresh_token"), refresh}));
		kw_text failure = refused(reply);
		if (failure) return kw_fail(failure);
		token = kw_get(reply.answers, KW("access_token"));
		kw_cache(KW("access_token"), token, kw_integer(kw_get(reply.answers, KW("expires_in"))));
	}
	return kw_mutate(kw_bearer(token));
}

KW_EXPORT(disconnect) {
	kw_exchange((struct kw_exchange){
		.url = kw_config(KW("token_url")), .method = KW("DELETE"), .path = KW_TEXTS(KW("grants"), KW("a/b")),
		.query = KW_PAIRS({KW("all"), KW("1")}), .json = KW_JOIN(KW("{\"token\":"), kw_quote(kw_state(KW("refresh_token"))), KW("}")),
	});
	return 0;
}
