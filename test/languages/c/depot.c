// Plugin depot_c authenticates requests to Depot, a made-up API that has a bit of everything. A login sends a digest of the
// password and the public half of a key that the host makes. It answers with a session, a workspace, a shared secret and the URL of the API. Each
// request has the session in a cookie, the workspace in its path, and is signed with the secret and with the key. The API's
// nonces are part of what is signed.
//
// The plugin holds references in place of password, session, workspace, secret, nonces and signatures. The bytes stay in the host.
#include "keywright.h"

// MARGIN is the time before the end of a session in which it is not used, in seconds.
#define MARGIN 60

KW_EXPORT(describe) {
	return kw_done(KW_JSON({
		"abi": 1, "type": "depot_c", "version": "1.0.0", "summary": "A session of Depot, with signed requests, in C.",
		"uses": ["token", "cache", "sign", "body"],
		"fields": [
			{"name": "url", "kind": "url", "required": true, "sinks": ["token"], "doc": "URL of the API."},
			{"name": "user", "kind": "string", "required": true, "sinks": ["token", "digest"], "doc": "Name of the user."},
			{"name": "password", "kind": "string", "required": true, "sealed": true, "sinks": ["digest"], "derived": ["token"], "doc": "Password. Its digest is sent."},
			{"name": "device_key", "kind": "key", "generate": true, "algorithm_field": "device_algorithm", "purposes": ["message"], "derived": ["header"], "doc": "Key of this device. If it is absent, the host makes one."},
			{"name": "device_algorithm", "kind": "string", "enum": ["EdDSA", "ES256"], "default": "EdDSA", "doc": "Algorithm of the key."}
		],
		"answers": [
			{"name": "session", "from": "cookie:SESSION", "kind": "sealed", "sinks": ["header"], "required": true},
			{"name": "workspace", "from": "json:/workspace", "kind": "sealed", "sinks": ["path"], "required": true},
			{"name": "api", "from": "json:/api", "kind": "sealed", "sinks": ["url"], "required": true},
			{"name": "secret", "from": "json:/secret", "kind": "sealed", "sinks": ["sign"], "derived": ["header"], "required": true},
			{"name": "expires_in", "from": "json:/expires_in", "kind": "integer", "required": true}
		],
		"challenge": {"statuses": [401], "keep": 300, "answers": [
			{"name": "nonce", "from": "header:Depot-Nonce", "kind": "sealed", "sinks": ["header", "digest"], "keep": true},
			{"name": "error", "from": "header:Depot-Error", "kind": "enum", "enum": ["use_nonce"]}
		]}
	}));
}

// log_in sets what a login answers with, and stores it in the cache. It returns the status of the answer.
static int64_t log_in(kw_text *session, kw_text *workspace, kw_text *secret, kw_text *api) {
	kw_text user = kw_config(KW("user"));
	kw_text proof = kw_hex(kw_digest(KW_DIGEST_SHA256, KW_JOIN(user, KW(":"), kw_config(KW("password")))));
	struct kw_members login = {0};
	kw_string(&login, KW("user"), user);
	kw_string(&login, KW("proof"), proof);
	kw_raw(&login, KW("device"), kw_public_key(KW("device_key"), KW_JWK));
	struct kw_answers reply = kw_exchange((struct kw_exchange){
		.url = kw_config(KW("url")), .path = KW_TEXTS(KW("sessions")), .json = kw_object(&login),
	});
	*session = kw_get(reply.answers, KW("session"));
	*workspace = kw_get(reply.answers, KW("workspace"));
	*secret = kw_get(reply.answers, KW("secret"));
	*api = kw_get(reply.answers, KW("api"));
	int64_t seconds = kw_integer(kw_get(reply.answers, KW("expires_in"))) - MARGIN;
	if (seconds > 0) kw_cache(KW("session"), KW_JOIN(*session, KW(" "), *workspace, KW(" "), *secret, KW(" "), *api), seconds);
	return reply.status;
}

KW_EXPORT(authenticate) {
	struct kw_answers challenge = kw_challenge();
	kw_text nonce = kw_get(challenge.answers, KW("nonce")), error = kw_get(challenge.answers, KW("error"));
	if (challenge.status == 401 && !kw_equal(error, KW("use_nonce")) && !kw_drop(KW("session")))
		return kw_mutate((struct kw_mutation){.pass = true}); // another session would not help

	kw_text cookie, workspace, secret, api, session = kw_cached(KW("session"));
	if (session) {
		uint32_t first = kw_find(session, 0, KW(" ")), second = kw_find(session, first + 1, KW(" ")), third = kw_find(session, second + 1, KW(" "));
		cookie = kw_slice(session, 0, first);
		workspace = kw_slice(session, first + 1, second);
		secret = kw_slice(session, second + 1, third);
		api = kw_slice(session, third + 1, session->length);
	} else {
		int64_t status = log_in(&cookie, &workspace, &secret, &api);
		if (status / 100 != 2) return kw_fail(KW_JOIN(KW("the login was answered with "), kw_decimal(status)));
	}

	// From here on the plugin knows its request, so it may use neither the cache nor an endpoint.
	kw_text once = kw_random(8), method = kw_request().method, body = kw_hex(kw_digest(KW_DIGEST_SHA256, kw_body()));
	kw_text message = KW_JOIN(KW("depot/1\n"), method, KW("\n"), body, KW("\n"), once, KW("\n"), nonce);
	kw_text mac = kw_mac(KW_MAC_SHA256, kw_decode(KW("base64"), secret), message);
	kw_text proof = kw_sign_sealed(KW("device_key"), KW_FOR_MESSAGE, message);
	return kw_mutate((struct kw_mutation){
		.headers = KW_PAIRS({KW("Depot-Once"), once}, {KW("Depot-MAC"), kw_base64(mac)}, {KW("Depot-Proof"), kw_base64_url(proof)}),
		.cookies = KW_PAIRS({KW("SESSION"), cookie}),
		.path = KW_PAIRS({KW("{workspace}"), workspace}),
		.url = api,
	});
}
