// Plugin depot_c authenticates requests to Depot, a made-up API that has a bit of everything. A login sends a digest of the
// password and the public half of a key that the host makes. It answers with a session, a workspace and a shared secret. Each
// request has the session in a cookie, the workspace in its path, and is signed with the secret and with the key. The API's
// nonces are part of what is signed.
//
// The plugin holds references in place of password, session, workspace, secret, nonces and signatures. The bytes stay in the host.
#include "keywright.h"

// MARGIN is the time before the end of a session in which it is not used, in seconds.
#define MARGIN 60

static const char description[] =
	"{\"abi\":1,\"type\":\"depot_c\",\"version\":\"1.0.0\",\"summary\":\"A session of Depot, with signed requests, in C.\","
	"\"uses\":[\"token\",\"cache\",\"sign\",\"body\"],\"fields\":["
	"{\"name\":\"url\",\"kind\":\"url\",\"required\":true,\"sinks\":[\"token\"],\"doc\":\"URL of the API.\"},"
	"{\"name\":\"user\",\"kind\":\"string\",\"required\":true,\"sinks\":[\"token\",\"digest\"],\"doc\":\"Name of the user.\"},"
	"{\"name\":\"password\",\"kind\":\"string\",\"required\":true,\"sealed\":true,\"sinks\":[\"digest\"],\"derived\":[\"token\"],"
	"\"doc\":\"Password. Its digest is sent.\"},"
	"{\"name\":\"device_key\",\"kind\":\"key\",\"generate\":true,\"algorithm_field\":\"device_algorithm\",\"purposes\":[\"message\"],"
	"\"derived\":[\"header\"],\"doc\":\"Key of this device. If it is absent, the host makes one.\"},"
	"{\"name\":\"device_algorithm\",\"kind\":\"string\",\"enum\":[\"EdDSA\",\"ES256\"],\"default\":\"EdDSA\",\"doc\":\"Algorithm of the key.\"}],"
	"\"answers\":["
	"{\"name\":\"session\",\"from\":\"cookie:SESSION\",\"kind\":\"sealed\",\"sinks\":[\"header\"],\"required\":true},"
	"{\"name\":\"workspace\",\"from\":\"json:/workspace\",\"kind\":\"sealed\",\"sinks\":[\"path\"],\"required\":true},"
	"{\"name\":\"secret\",\"from\":\"json:/secret\",\"kind\":\"sealed\",\"sinks\":[\"sign\"],\"derived\":[\"header\"],\"required\":true},"
	"{\"name\":\"expires_in\",\"from\":\"json:/expires_in\",\"kind\":\"integer\",\"required\":true}],"
	"\"challenge\":{\"statuses\":[401],\"keep\":300,\"answers\":["
	"{\"name\":\"nonce\",\"from\":\"header:Depot-Nonce\",\"kind\":\"sealed\",\"sinks\":[\"header\",\"digest\"],\"keep\":true},"
	"{\"name\":\"error\",\"from\":\"header:Depot-Error\",\"kind\":\"enum\",\"enum\":[\"use_nonce\"]}]}}";

KW_EXPORT(describe) int32_t describe(void) { return done(str(description)); }

// log_in returns session, workspace and secret with blanks between them, and stores them in the cache. If the API refuses, it returns
// no text and sets status.
static text log_in(text *status) {
	text user = config("user");
	text proof = encode("hex", sha256(JOIN(user, str(":"), config("password"))));
	text device = take(kw_public_key(give(str("device_key")), give(str("jwk"))));
	text reply = take(kw_exchange(give(JOIN(
		str("{\"url\":"), quote(config("url")), str(",\"path\":[\"sessions\"],\"json\":{\"user\":"), quote(user),
		str(",\"proof\":"), quote(proof), str(",\"device\":"), device, str("}}")))));
	*status = member(reply, "status");
	if (status->at[0] != '2') return (text){"", 0};

	text session = JOIN(member(reply, "session"), str(" "), member(reply, "workspace"), str(" "), member(reply, "secret"));
	text life = member(reply, "expires_in");
	uint64_t seconds = 0;
	for (uint32_t i = 0; i < life.length; i++) seconds = 10 * seconds + (uint64_t)(life.at[i] - '0');
	if (seconds > MARGIN) kw_cache_set(give(str("session")), give(session), seconds - MARGIN);
	return session;
}

// part returns the part of a text up to the next blank, and takes it off the text.
static text part(text *all) {
	uint32_t n = 0;
	while (n < all->length && all->at[n] != ' ') n++;
	text first = {all->at, n}, rest = {all->at + n + 1, all->length - n - 1};
	*all = n < all->length ? rest : (text){"", 0};
	return first;
}

KW_EXPORT(authenticate) int32_t authenticate(void) {
	text key = str("session"), challenge = take(kw_challenge());
	text nonce = member(challenge, "nonce");
	int refused = equal(member(challenge, "status"), str("401"));
	if (refused && !equal(member(challenge, "error"), str("use_nonce")) && !kw_cache_drop(give(key)))
		return done(str("{\"pass\":true}")); // another session would not help

	text session = take(kw_cache_get(give(key))), status = {"", 0};
	if (session.length == 0) session = log_in(&status);
	if (session.length == 0) return failed(JOIN(str("the login was answered with "), status));
	text cookie = part(&session), workspace = part(&session), secret = part(&session);

	// From here on the plugin knows its request, so it may use neither the cache nor an endpoint.
	text method = member(take(kw_input_offset()), "method");
	text once = take(kw_random(8));
	text message = JOIN(str("depot/1\n"), method, str("\n"), encode("hex", sha256(take(kw_body()))), str("\n"), once, str("\n"), nonce);
	text mac = take(kw_mac(give(str("HS256")), give(decode("base64", secret)), give(message)));
	text proof = take(kw_sign_sealed(give(str("device_key")), give(str("message")), give(message)));
	return done(JOIN(
		str("{\"headers\":["), pair("Depot-Once", once), str(","), pair("Depot-MAC", encode("base64", mac)), str(","),
		pair("Depot-Proof", encode("base64url", proof)), str("],\"cookies\":["), pair("SESSION", cookie),
		str("],\"path\":["), pair("{workspace}", workspace), str("]}")));
}
