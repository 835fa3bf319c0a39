// keywright.h is the C SDK for Keywright plugins: one header, without a C library. README.md beside it shows a plugin, and ABI.md is
// the contract. Functions have the names of the Go SDK.
//
// A plugin never sees a credential. In place of a secret, a token or a signature it gets a sealed value: a text that refers to the
// bytes. It can put that text into others with KW_JOIN, and may not cut or change it. If a host function fails, it ends the call
// and does not return.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// kw_text is a text in UTF-8, or bytes. KW returns that of a literal. Where a function may find nothing, it returns 0, which counts as an
// empty text for every function.
typedef const struct kw_text {
	uint32_t length;
	char at[];
} *kw_text;
#define KW(literal) \
	({ \
		static const struct { uint32_t length; char at[sizeof literal]; } kw_literal = {sizeof literal - 1, "" literal}; \
		(kw_text)(const void *)&kw_literal; \
	})

// KW_JSON returns what is in its parentheses as a text. So a description needs no backslashes.
#define KW_JSON(...) KW(#__VA_ARGS__)

// Constants of the contract. go generate ./tools/constants writes them.
#define KW_DIGEST_MD5 KW("md5")
#define KW_DIGEST_SHA1 KW("sha1")
#define KW_DIGEST_SHA256 KW("sha256")
#define KW_DIGEST_SHA384 KW("sha384")
#define KW_DIGEST_SHA512 KW("sha512")
#define KW_DIGEST_SHA512256 KW("sha512_256")
#define KW_MAC_SHA1 KW("HS1")
#define KW_MAC_SHA256 KW("HS256")
#define KW_MAC_SHA384 KW("HS384")
#define KW_MAC_SHA512 KW("HS512")
#define KW_FOR_JWT KW("jwt")
#define KW_FOR_HTTP_SIGNATURE KW("http_signature")
#define KW_FOR_MESSAGE KW("message")
#define KW_FOR_JWS KW("jws")
#define KW_RS1 KW("RS1")
#define KW_JWK KW("jwk")
#define KW_JWK_THUMBPRINT KW("jwk_thumbprint")
#define KW_X5T KW("x5t#S256")
#define KW_X5C KW("x5c")
#define KW_ANSWER_SEALED KW("sealed")
#define KW_ANSWER_INTEGER KW("integer")
#define KW_ANSWER_TIME KW("time")
#define KW_ANSWER_ENUM KW("enum")
#define KW_ABI 1
#define KW_STRING KW("string")
#define KW_URL KW("url")
#define KW_INTEGER KW("integer")
#define KW_BOOLEAN KW("boolean")
#define KW_OBJECT KW("object")
#define KW_KEY KW("key")
#define KW_CERTIFICATE KW("certificate")
#define KW_TO_HEADER KW("header")
#define KW_TO_QUERY KW("query")
#define KW_TO_TOKEN KW("token")
#define KW_TO_CLAIM KW("claim")
#define KW_TO_SIGN KW("sign")
#define KW_TO_DIGEST KW("digest")
#define KW_TO_PATH KW("path")
#define KW_TO_BODY KW("body")
#define KW_TO_URL KW("url")
#define KW_USES_SECRET KW("secret")
#define KW_USES_TOKEN KW("token")
#define KW_USES_CACHE KW("cache")
#define KW_USES_SIGN KW("sign")
#define KW_USES_BODY KW("body")
#define KW_USES_STATE KW("state")
#define KW_USES_TURN KW("turn")
#define KW_MAX_RANDOM 64
#define KW_MAX_FIELDS 256
#define KW_MAX_ALIASES 8
#define KW_MAX_ABOUT 512
#define KW_MAX_PATTERN 256
#define KW_MAX_ANSWERS 16
#define KW_MAX_PLAIN_ANSWERS 8
#define KW_MAX_STATES 4
#define KW_MAX_ENUM 32
// End of the constants.

// KW_EXPORT begins an export: KW_EXPORT(describe) { … }.
#define KW_EXPORT(name) __attribute__((export_name(#name))) int32_t name(void)

// Host functions, as ABI.md has them. Parameters and results are offsets of memory blocks unless they have another name or type.
#define KW_ENV(result, name, ...) __attribute__((import_module("extism:host/env"), import_name(#name))) result kw_host_##name(__VA_ARGS__);
#define KW_USER(result, name, ...) __attribute__((import_module("extism:host/user"), import_name(#name))) result kw_host_##name(__VA_ARGS__);
KW_ENV(uint64_t, config_get, uint64_t name)
KW_ENV(uint64_t, input_offset, void)
KW_ENV(void, output_set, uint64_t block, uint64_t length)
KW_ENV(void, error_set, uint64_t block)
KW_ENV(void, log_debug, uint64_t block)
KW_ENV(void, log_info, uint64_t block)
KW_ENV(void, log_warn, uint64_t block)
KW_ENV(void, log_error, uint64_t block)
KW_USER(uint64_t, block_new, const void *address, uint32_t length)
KW_USER(uint64_t, block_read, uint64_t block, void *address, uint32_t room)
KW_USER(int64_t, time_now, void)
KW_USER(int64_t, time_millis, void)
KW_USER(int64_t, clock_offset, void)
KW_USER(int64_t, counter, int64_t floor)
KW_USER(uint64_t, random, int64_t bytes)
KW_USER(uint64_t, secret_get, uint64_t name)
KW_USER(uint64_t, token_request, uint64_t request)
KW_USER(uint64_t, exchange, uint64_t request)
KW_USER(uint64_t, cache_get, uint64_t key)
KW_USER(void, cache_set, uint64_t key, uint64_t value, int64_t seconds)
KW_USER(uint64_t, cache_drop, uint64_t key)
KW_USER(uint64_t, state_get, uint64_t name)
KW_USER(uint64_t, compose, uint64_t text, uint64_t with)
KW_USER(uint64_t, challenge, void)
KW_USER(uint64_t, jwt_sign, uint64_t request)
KW_USER(uint64_t, jws_sign, uint64_t request)
KW_USER(uint64_t, encode, uint64_t format, uint64_t text)
KW_USER(uint64_t, decode, uint64_t format, uint64_t text)
KW_USER(uint64_t, digest, uint64_t algorithm, uint64_t data)
KW_USER(uint64_t, mac, uint64_t hash, uint64_t key, uint64_t data)
KW_USER(uint64_t, sign_sealed, uint64_t field, uint64_t purpose, uint64_t data)
KW_USER(uint64_t, public_key, uint64_t field, uint64_t form)
KW_USER(uint64_t, body, void)
KW_USER(uint64_t, body_form, void)
KW_USER(uint64_t, sign, uint64_t field, uint64_t data)
KW_USER(uint64_t, reveal, uint64_t value)

// kw_length returns the length of a text in bytes.
static inline uint32_t kw_length(kw_text t) { return t ? t->length : 0; }

// kw_give returns a new memory block with a text.
static inline uint64_t kw_give(kw_text t) { return kw_host_block_new(t ? t->at : 0, kw_length(t)); }

// kw_trap ends the call, as a panic does. The host logs why.
static inline void kw_trap(kw_text why) {
	kw_host_log_error(kw_give(why));
	__builtin_trap();
}

// kw_room returns the address of unused memory. Nothing frees it: the host puts the memory back after the call.
extern unsigned char __heap_base;
__attribute__((weak)) uintptr_t kw_used; // one for all files of a plugin
static inline void *kw_room(uint64_t length) {
	uint64_t at = kw_used ? kw_used : (uintptr_t)&__heap_base, have = (uint64_t)__builtin_wasm_memory_size(0) << 16, end = at + ((length + 7) & ~7ull);
	if (end > have && (end > UINT32_MAX || __builtin_wasm_memory_grow(0, (end - have + 65535) >> 16) == UINTPTR_MAX)) kw_trap(KW("there is no memory left"));
	kw_used = (uintptr_t)end;
	return (void *)(uintptr_t)at;
}

// kw_new returns a text of some length, to be filled in at its address.
static inline kw_text kw_new(uint32_t length, char **at) {
	struct kw_text *t = kw_room((uint64_t)length + sizeof *t);
	t->length = length;
	*at = t->at;
	return t;
}

// kw_fit cuts the text that was made last at its end.
static inline kw_text kw_fit(kw_text t, const char *end) {
	((struct kw_text *)t)->length = (uint32_t)(end - t->at);
	kw_used = ((uintptr_t)end + 7) & ~(uintptr_t)7;
	return t;
}

// kw_take returns the text of a memory block, or 0 if there is no block.
static inline kw_text kw_take(uint64_t block) {
	if (!block) return 0;
	char *at;
	uint32_t length = (uint32_t)kw_host_block_read(block, 0, 0);
	kw_text t = kw_new(length, &at);
	kw_host_block_read(block, at, length);
	return t;
}

// Texts.

// KW_JOIN returns texts one after the other.
#define KW_JOIN(...) kw_join((const kw_text[]){__VA_ARGS__}, sizeof((const kw_text[]){__VA_ARGS__}) / sizeof(kw_text))
static inline __attribute__((noinline)) kw_text kw_join(const kw_text *parts, uint32_t count) {
	uint32_t length = 0;
	for (uint32_t i = 0; i < count; i++) length += kw_length(parts[i]);
	char *at;
	kw_text t = kw_new(length, &at);
	for (uint32_t i = 0; i < count; at += kw_length(parts[i++]))
		if (parts[i]) __builtin_memcpy(at, parts[i]->at, parts[i]->length);
	return t;
}

// kw_slice returns the part of a text from one index to another.
static inline kw_text kw_slice(kw_text t, uint32_t from, uint32_t to) {
	char *at;
	if (from >= to || to > kw_length(t)) return KW("");
	kw_text part = kw_new(to - from, &at);
	__builtin_memcpy(at, t->at + from, to - from);
	return part;
}

static inline __attribute__((noinline)) bool kw_equal(kw_text a, kw_text b) {
	if (kw_length(a) != kw_length(b)) return false;
	for (uint32_t i = 0; i < kw_length(a); i++)
		if (a->at[i] != b->at[i]) return false;
	return true;
}

// kw_find returns the index of the first byte of a text, from an index on, that is one of any, or the length of the text.
static inline __attribute__((noinline)) uint32_t kw_find(kw_text t, uint32_t from, kw_text any) {
	for (; from < kw_length(t); from++)
		for (uint32_t i = 0; i < any->length; i++)
			if (t->at[from] == any->at[i]) return from;
	return kw_length(t);
}

// kw_lower returns a text with its ASCII letters in lower case.
static inline __attribute__((noinline)) kw_text kw_lower(kw_text t) {
	char *at;
	kw_text lower = kw_new(kw_length(t), &at);
	for (uint32_t i = 0; i < lower->length; i++) at[i] = t->at[i] >= 'A' && t->at[i] <= 'Z' ? (char)(t->at[i] + 'a' - 'A') : t->at[i];
	return lower;
}

// kw_is_token reports whether a text is a token, such as a cookie's name or an authentication scheme (RFC 9110 section 5.6.2).
static inline __attribute__((noinline)) bool kw_is_token(kw_text t) {
	kw_text others = KW("!#$%&'*+-.^_`|~");
	for (uint32_t i = 0; i < kw_length(t); i++) {
		char c = t->at[i], letter = c | 0x20;
		uint32_t o = (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') ? 0 : others->length;
		for (uint32_t k = 0; k < others->length && o; k++)
			if (others->at[k] == c) o = 0;
		if (o) return false;
	}
	return kw_length(t) > 0;
}

// kw_decimal returns a number as a text. kw_integer returns the number at the beginning of a text, or 0.
static inline __attribute__((noinline)) kw_text kw_decimal(int64_t n) {
	char digits[20], *at;
	uint32_t length = 0;
	uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
	do digits[length++] = (char)('0' + rest % 10);
	while (rest /= 10);
	kw_text t = kw_new(length + (n < 0), &at);
	if (n < 0) *at++ = '-';
	while (length) *at++ = digits[--length];
	return t;
}
static inline __attribute__((noinline)) int64_t kw_integer(kw_text t) {
	uint64_t n = 0;
	bool negative = kw_length(t) && t->at[0] == '-';
	for (uint32_t i = negative; i < kw_length(t) && t->at[i] >= '0' && t->at[i] <= '9'; i++) n = 10 * n + (uint64_t)(t->at[i] - '0');
	return (int64_t)(negative ? -n : n);
}

// JSON.

// kw_plain returns the index of the first byte, from an index on, that needs an escape in a JSON string, or the length of the text.
// Functions with a loop over bytes are not inlined: an iteration pays for all code in its loop, and clang puts what follows there.
static inline __attribute__((noinline)) uint32_t kw_plain(kw_text t, uint32_t i) {
	while (i < t->length && (unsigned char)t->at[i] >= ' ' && t->at[i] != '"' && t->at[i] != '\\') i++;
	return i;
}

// kw_quote returns a text as a JSON string.
static inline kw_text kw_quote(kw_text t) {
	char *at;
	kw_text json = kw_new(6 * (t = t ? t : KW(""))->length + 2, &at);
	*at++ = '"';
	for (uint32_t i = 0;;) {
		uint32_t end = kw_plain(t, i);
		__builtin_memcpy(at, t->at + i, end - i);
		at += end - i;
		if (end == t->length) break;
		char c = t->at[end];
		i = end + 1;
		*at++ = '\\';
		if ((unsigned char)c < ' ') {
			__builtin_memcpy(at, "u00", 3);
			at[3] = (char)('0' + (c >> 4));
			at += 4;
			c = "0123456789abcdef"[c & 15];
		}
		*at++ = c;
	}
	*at++ = '"';
	return kw_fit(json, at);
}

// struct kw_members builds a JSON object, member by member: struct kw_members m = {0}. kw_raw adds a member that is JSON, kw_string one
// with a string, kw_optional one that is not empty, and kw_flag one that is true. kw_object returns the object.
struct kw_members {
	kw_text text;
};
static inline void kw_raw(struct kw_members *m, kw_text name, kw_text json) {
	m->text = KW_JOIN(m->text, m->text ? KW(",") : KW("{"), kw_quote(name), KW(":"), json);
}
static inline void kw_string(struct kw_members *m, kw_text name, kw_text value) { kw_raw(m, name, kw_quote(value)); }
static inline void kw_optional(struct kw_members *m, kw_text name, kw_text value) {
	if (kw_length(value)) kw_string(m, name, value);
}
static inline void kw_flag(struct kw_members *m, kw_text name, bool value) {
	if (value) kw_raw(m, name, KW("true"));
}
static inline kw_text kw_object(const struct kw_members *m) { return KW_JOIN(m->text ? m->text : KW("{"), KW("}")); }

// KW_EACH walks over a JSON object or a list: KW_EACH(e, json) { … e.name … e.value … }. The value is JSON text. In a list there are no
// names. The walk ends where the text is not JSON.
#define KW_EACH(e, text) for (struct kw_each e = {.json = text}; kw_next(&e);)
struct kw_each {
	kw_text json, name, value;
	uint32_t at;
	bool object;
};

static inline __attribute__((noinline)) uint32_t kw_space(kw_text t, uint32_t i) {
	while (i < kw_length(t) && (unsigned char)t->at[i] <= ' ') i++;
	return i;
}

// kw_closing returns the index of the quote that ends the JSON string that begins at i, or the length of the text.
static inline __attribute__((noinline)) uint32_t kw_closing(kw_text t, uint32_t i) {
	for (i++; i < t->length && t->at[i] != '"'; i++) i += t->at[i] == '\\';
	return i < t->length ? i : t->length;
}

// kw_end returns the end of the JSON value that begins at i.
static inline uint32_t kw_end(kw_text t, uint32_t i) {
	for (uint32_t depth = 0; i < t->length; i++) {
		unsigned char c = (unsigned char)t->at[i];
		if (c == '"') {
			i = kw_closing(t, i);
			if (!depth) return i < t->length ? i + 1 : i;
		} else if (c == '{' || c == '[') {
			depth++;
		} else if (c == '}' || c == ']') {
			if (!depth) return i;
			if (!--depth) return i + 1;
		} else if (!depth && (c == ',' || c == ':' || c <= ' ')) {
			return i;
		}
	}
	return t->length;
}

// kw_unit returns the value of the four hexadecimal digits at i.
static inline __attribute__((noinline)) uint32_t kw_unit(kw_text t, uint32_t i) {
	uint32_t unit = 0;
	for (uint32_t end = i + 4; i < end && i < t->length; i++) unit = unit << 4 | ((uint32_t)(t->at[i] <= '9' ? t->at[i] - '0' : (t->at[i] | 0x20) - 'a' + 10) & 15);
	return unit;
}

// kw_value returns a JSON string decoded, and other JSON as it is.
static inline kw_text kw_value(kw_text json) {
	if (kw_length(json) < 2 || json->at[0] != '"') return json;
	json = kw_slice(json, 1, json->length - 1);
	if (kw_plain(json, 0) == json->length) return json;
	char *to;
	kw_text escapes = KW("b\bf\fn\nr\rt\t"), decoded = kw_new(json->length, &to);
	for (uint32_t i = 0; i < json->length; i++) {
		uint32_t code = (unsigned char)json->at[i];
		if (code == '\\' && i + 1 < json->length) {
			code = (unsigned char)json->at[++i];
			for (uint32_t e = 0; e < escapes->length; e += 2)
				if (code == (unsigned char)escapes->at[e]) {
					code = (unsigned char)escapes->at[e + 1];
					break;
				}
			if (code == 'u') {
				code = kw_unit(json, i + 1), i += 4;
				uint32_t low = i + 6 < json->length && json->at[i + 1] == '\\' ? kw_unit(json, i + 3) : 0;
				if (code >> 10 == 0x36 && low >> 10 == 0x37) code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)), i += 6;
				else if (code >> 11 == 0x1b) code = 0xfffd; // half of a surrogate pair
				if (code >= 0x80) {
					uint32_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
					*to++ = (char)(-128 >> more | (int)(code >> 6 * more));
					while (--more) *to++ = (char)(0x80 | (code >> 6 * more & 0x3f));
					code = 0x80 | (code & 0x3f);
				}
			}
		}
		*to++ = (char)code;
	}
	return kw_fit(decoded, to);
}

static inline bool kw_next(struct kw_each *e) {
	kw_text t = e->json ? e->json : KW("");
	uint32_t i = kw_space(t, e->at), end;
	char c = i < t->length ? t->at[i] : 0;
	if (e->at ? c != ',' : c != '{' && c != '[') return false;
	if (c != ',') e->object = c == '{';
	i = kw_space(t, i + 1);
	if (e->object) {
		end = kw_end(t, i);
		e->name = kw_value(kw_slice(t, i, end));
		i = kw_space(t, end);
		if (i >= t->length || t->at[i] != ':') return false;
		i = kw_space(t, i + 1);
	}
	e->at = kw_end(t, i);
	e->value = kw_slice(t, i, e->at);
	return e->at > i;
}

// Lists of texts, and of names and values: of headers, parameters, forms and answers. KW_TEXTS(…) and KW_PAIRS({name, value}, …) make
// them.
struct kw_texts {
	const kw_text *at;
	uint32_t length;
};
struct kw_pair {
	kw_text name, value;
};
struct kw_pairs {
	const struct kw_pair *at;
	uint32_t length;
};
#define KW_TEXTS(...) ((struct kw_texts){(const kw_text[]){__VA_ARGS__}, sizeof((const kw_text[]){__VA_ARGS__}) / sizeof(kw_text)})
#define KW_PAIRS(...) ((struct kw_pairs){(const struct kw_pair[]){__VA_ARGS__}, sizeof((const struct kw_pair[]){__VA_ARGS__}) / sizeof(struct kw_pair)})

// kw_pairs returns the members of a JSON object whose values are texts or numbers, or those of a list of objects with name and value.
static inline struct kw_pairs kw_pairs(kw_text json) {
	uint32_t length = 0;
	KW_EACH(e, json) length++;
	struct kw_pair *at = kw_room(length * sizeof *at), *to = at;
	KW_EACH(e, json) {
		*to = (struct kw_pair){e.name, kw_value(e.value)};
		KW_EACH(p, e.object ? 0 : e.value) *(kw_equal(p.name, KW("name")) ? &to->name : &to->value) = kw_value(p.value);
		to++;
	}
	return (struct kw_pairs){at, length};
}

// kw_get returns the value of a name, or 0.
static inline kw_text kw_get(struct kw_pairs pairs, kw_text name) {
	for (uint32_t i = 0; i < pairs.length; i++)
		if (kw_equal(pairs.at[i].name, name)) return pairs.at[i].value;
	return 0;
}

// kw_header_value returns the values of a header, joined by a comma, or 0. The case of the name does not matter.
static inline kw_text kw_header_value(struct kw_pairs headers, kw_text name) {
	kw_text value = 0;
	for (uint32_t i = 0; i < headers.length; i++)
		if (kw_equal(kw_lower(headers.at[i].name), kw_lower(name))) value = value ? KW_JOIN(value, KW(", "), headers.at[i].value) : headers.at[i].value;
	return value;
}

static inline void kw_list(struct kw_members *m, kw_text name, struct kw_pairs pairs) {
	kw_text list = KW("[");
	for (uint32_t i = 0; i < pairs.length; i++) {
		struct kw_members pair = {0};
		kw_string(&pair, KW("name"), pairs.at[i].name);
		kw_string(&pair, KW("value"), pairs.at[i].value);
		list = KW_JOIN(list, i ? KW(",") : KW(""), kw_object(&pair));
	}
	if (pairs.length) kw_raw(m, name, KW_JOIN(list, KW("]")));
}
static inline void kw_names(struct kw_members *m, kw_text name, struct kw_texts texts) {
	kw_text list = KW("[");
	for (uint32_t i = 0; i < texts.length; i++) list = KW_JOIN(list, i ? KW(",") : KW(""), kw_quote(texts.at[i]));
	if (texts.length) kw_raw(m, name, KW_JOIN(list, KW("]")));
}

// What an export returns.

// kw_done sets the output of an export, such as a description, and returns success. kw_fail returns failure with a message.
static inline int32_t kw_done(kw_text document) {
	kw_host_output_set(kw_give(document), kw_length(document));
	return 0;
}
static inline int32_t kw_fail(kw_text message) {
	kw_host_error_set(kw_give(message));
	return 1;
}

// struct kw_mutation has the changes to the request. kw_mutate is the end of authenticate.
struct kw_mutation {
	struct kw_pairs headers, query, cookies, path, form;
	kw_text url; // a sealed value with the sink url, or empty
	bool pass;
};
static inline int32_t kw_mutate(struct kw_mutation m) {
	struct kw_members o = {0};
	kw_list(&o, KW("headers"), m.headers);
	kw_list(&o, KW("query"), m.query);
	kw_list(&o, KW("cookies"), m.cookies);
	kw_list(&o, KW("path"), m.path);
	kw_list(&o, KW("form"), m.form);
	kw_optional(&o, KW("url"), m.url);
	kw_flag(&o, KW("pass"), m.pass);
	return kw_done(kw_object(&o));
}

// kw_header and kw_query return a mutation with one header or query parameter, and kw_bearer one with a token in the Authorization header.
static inline struct kw_pairs kw_one(kw_text name, kw_text value) {
	struct kw_pair *pair = kw_room(sizeof *pair);
	*pair = (struct kw_pair){name, value};
	return (struct kw_pairs){pair, 1};
}
static inline struct kw_mutation kw_header(kw_text name, kw_text value) { return (struct kw_mutation){.headers = kw_one(name, value)}; }
static inline struct kw_mutation kw_query(kw_text name, kw_text value) { return (struct kw_mutation){.query = kw_one(name, value)}; }
static inline struct kw_mutation kw_bearer(kw_text token) { return kw_header(KW("Authorization"), KW_JOIN(KW("Bearer "), token)); }

// struct kw_push says how an authorization request is pushed (RFC 9126), if it has a url.
struct kw_push {
	kw_text url;
	struct kw_pairs form, headers;
};

// struct kw_consent is the page to which a user's browser goes. kw_ask is the end of consent.
struct kw_consent {
	kw_text url, issuer, code_parameter;
	struct kw_pairs query;
	bool iss_required, no_pkce;
	struct kw_push push;
};
static inline int32_t kw_ask(struct kw_consent c) {
	struct kw_members o = {0};
	kw_string(&o, KW("url"), c.url);
	kw_list(&o, KW("query"), c.query);
	kw_optional(&o, KW("issuer"), c.issuer);
	kw_flag(&o, KW("iss_required"), c.iss_required);
	kw_optional(&o, KW("code_parameter"), c.code_parameter);
	kw_flag(&o, KW("no_pkce"), c.no_pkce);
	if (kw_length(c.push.url)) {
		struct kw_members push = {0};
		kw_string(&push, KW("url"), c.push.url);
		kw_list(&push, KW("form"), c.push.form);
		kw_list(&push, KW("headers"), c.push.headers);
		kw_raw(&o, KW("push"), kw_object(&push));
	}
	return kw_done(kw_object(&o));
}

// kw_problem adds to a list what is wrong with a field. kw_problems is the end of validate: it fails if the list has anything.
static inline void kw_problem(kw_text *problems, kw_text field, kw_text message) {
	*problems = KW_JOIN(*problems, kw_length(*problems) ? KW("\n") : KW(""), field, KW(": "), message);
}
static inline int32_t kw_problems(kw_text problems) { return kw_length(problems) ? kw_fail(problems) : 0; }

// What a plugin calls. The comments name the group that the description must have in uses.

// kw_config returns the rendered value of a field, or 0. In validate it returns literal values only.
static inline kw_text kw_config(kw_text name) { return kw_take(kw_host_config_get(kw_give(name))); }
// kw_first returns the value of the first of some fields that is not empty, or 0.
static inline kw_text kw_first(struct kw_texts names) {
	for (uint32_t i = 0; i < names.length; i++) {
		kw_text value = kw_config(names.at[i]);
		if (kw_length(value)) return value;
	}
	return 0;
}
static inline kw_text kw_secret(kw_text name) { return kw_take(kw_host_secret_get(kw_give(name))); } // secret
static inline int64_t kw_now(void) { return kw_host_time_now(); }                                     // Unix seconds
static inline int64_t kw_now_millis(void) { return kw_host_time_millis(); }
static inline int64_t kw_clock_offset(void) { return kw_host_clock_offset(); }
static inline int64_t kw_counter(int64_t floor) { return kw_host_counter(floor); } // a number that only rises: turn
static inline kw_text kw_random(int64_t bytes) { return kw_take(kw_host_random(bytes)); } // in hex
static inline void kw_debug(kw_text line) { kw_host_log_debug(kw_give(line)); }
static inline void kw_info(kw_text line) { kw_host_log_info(kw_give(line)); }
static inline void kw_warn(kw_text line) { kw_host_log_warn(kw_give(line)); }

// cache: kw_cached returns 0 on a miss. kw_drop reports whether a new value may help.
static inline kw_text kw_cached(kw_text key) { return kw_take(kw_host_cache_get(kw_give(key))); }
static inline void kw_cache(kw_text key, kw_text value, int64_t seconds) { kw_host_cache_set(kw_give(key), kw_give(value), seconds); }
static inline bool kw_drop(kw_text key) { return kw_host_cache_drop(kw_give(key)); }

// kw_cache_token stores a token until a minute before it ends. If its lifetime in seconds is not longer, or not known and so 0, it stores
// nothing and logs a warning: cache.
static inline void kw_cache_token(kw_text key, kw_text token, int64_t lifetime) {
	if (lifetime > 60) kw_cache(key, token, lifetime - 60);
	else kw_warn(KW("the token is not cached: it has no lifetime above 60 seconds"));
}

// state: kw_state returns a state of the grant, or 0, and takes the turn of the grant. The next kw_exchange uses it.
static inline kw_text kw_state(kw_text name) { return kw_take(kw_host_state_get(kw_give(name))); }

// The results are sealed if the text holds a sealed value. kw_decode returns bytes.
static inline kw_text kw_encode(kw_text format, kw_text t) { return kw_take(kw_host_encode(kw_give(format), kw_give(t))); }
static inline kw_text kw_decode(kw_text format, kw_text t) { return kw_take(kw_host_decode(kw_give(format), kw_give(t))); }
static inline kw_text kw_base64(kw_text t) { return kw_encode(KW("base64"), t); }
static inline kw_text kw_base64_url(kw_text t) { return kw_encode(KW("base64url"), t); }
static inline kw_text kw_base32(kw_text t) { return kw_encode(KW("base32"), t); }
static inline kw_text kw_hex(kw_text t) { return kw_encode(KW("hex"), t); }
static inline kw_text kw_hex_upper(kw_text t) { return kw_encode(KW("hex_upper"), t); }
static inline kw_text kw_percent(kw_text t) { return kw_encode(KW("percent"), t); }
static inline kw_text kw_form_encode(kw_text t) { return kw_encode(KW("form"), t); }
static inline kw_text kw_quoted(kw_text t) { return kw_encode(KW("quoted"), t); }

// The results are bytes, and must be encoded before they are sent. kw_mac, kw_sign_sealed and kw_public_key: sign.
static inline kw_text kw_digest(kw_text algorithm, kw_text data) { return kw_take(kw_host_digest(kw_give(algorithm), kw_give(data))); }
static inline kw_text kw_mac(kw_text hash, kw_text key, kw_text data) { return kw_take(kw_host_mac(kw_give(hash), kw_give(key), kw_give(data))); }
static inline kw_text kw_sign_sealed(kw_text field, kw_text purpose, kw_text data) {
	return kw_take(kw_host_sign_sealed(kw_give(field), kw_give(purpose), kw_give(data)));
}
static inline kw_text kw_public_key(kw_text field, kw_text form) { return kw_take(kw_host_public_key(kw_give(field), kw_give(form))); } // a text
static inline kw_text kw_sign(kw_text field, kw_text data) { return kw_take(kw_host_sign(kw_give(field), kw_give(data))); }            // grant sign_raw
static inline kw_text kw_reveal(kw_text value) { return kw_take(kw_host_reveal(kw_give(value))); }                                     // grant reveal

// struct kw_jwt is an unsigned JWT. header and claims are JSON objects. kw_sign_jwt signs it for a header of the request,
// kw_sign_query_jwt for its query, and kw_sign_assertion for a token request: sign.
struct kw_jwt {
	kw_text key, header, claims;
	struct kw_texts integers;
};
static inline kw_text kw_sign_for(kw_text sink, struct kw_jwt j) {
	struct kw_members o = {0};
	kw_string(&o, KW("key"), j.key);
	kw_string(&o, KW("for"), sink);
	if (kw_length(j.header)) kw_raw(&o, KW("header"), j.header);
	kw_raw(&o, KW("claims"), j.claims);
	kw_names(&o, KW("integers"), j.integers);
	return kw_take(kw_host_jwt_sign(kw_give(kw_object(&o))));
}
static inline kw_text kw_sign_jwt(struct kw_jwt j) { return kw_sign_for(KW("header"), j); }
static inline kw_text kw_sign_query_jwt(struct kw_jwt j) { return kw_sign_for(KW("query"), j); }
static inline kw_text kw_sign_assertion(struct kw_jwt j) { return kw_sign_for(KW("token"), j); }

// struct kw_jws is a signature to make. header is a JSON object, and crit names members of it. kw_sign_jws returns the JWS, without its
// payload unless that is attached: sign.
struct kw_jws {
	kw_text key, header, payload;
	bool unencoded, attached;
	struct kw_texts crit, integers;
};
static inline kw_text kw_sign_jws(struct kw_jws j) {
	struct kw_members o = {0};
	kw_string(&o, KW("key"), j.key);
	if (kw_length(j.header)) kw_raw(&o, KW("header"), j.header);
	kw_names(&o, KW("crit"), j.crit);
	kw_flag(&o, KW("unencoded"), j.unencoded);
	kw_string(&o, KW("payload"), j.payload);
	kw_flag(&o, KW("attached"), j.attached);
	kw_names(&o, KW("integers"), j.integers);
	return kw_take(kw_host_jws_sign(kw_give(kw_object(&o))));
}

// struct kw_token is the answer to a token request. failure is 0 if there is a token, and else says what the endpoint answered. expires_in
// is 0 if it is not known. kw_request_token: token.
struct kw_token {
	kw_text access_token, token_type, scope, failure;
	int64_t expires_in;
	struct kw_pairs extra;
};
struct kw_token_request {
	kw_text url;
	struct kw_pairs form, headers;
	struct kw_texts extra;
};
static inline struct kw_token kw_request_token(struct kw_token_request r) {
	struct kw_members o = {0};
	kw_string(&o, KW("url"), r.url);
	kw_list(&o, KW("form"), r.form);
	kw_list(&o, KW("headers"), r.headers);
	kw_names(&o, KW("extra"), r.extra);
	kw_text reply = kw_take(kw_host_token_request(kw_give(kw_object(&o)))), extra = 0;
	struct kw_pairs members = kw_pairs(reply);
	kw_text status = kw_get(members, KW("status")), error = kw_get(members, KW("error"));
	KW_EACH(e, reply)
		if (kw_equal(e.name, KW("extra"))) extra = e.value;
	struct kw_token t = {
		.access_token = kw_get(members, KW("access_token")), .token_type = kw_get(members, KW("token_type")), .scope = kw_get(members, KW("scope")),
		.expires_in = kw_integer(kw_get(members, KW("expires_in"))), .extra = kw_pairs(extra),
	};
	if (kw_length(status) != 3 || status->at[0] != '2')
		t.failure = KW_JOIN(KW("the token endpoint answered "), status, error ? KW_JOIN(KW(" ("), error, KW(")")) : 0);
	return t;
}

// struct kw_answers has parts of an answer, by the names of the description. status is 0 in a challenge that is none.
struct kw_answers {
	int64_t status, count, clock_change;
	struct kw_pairs answers;
};
static inline struct kw_answers kw_answers(kw_text reply) {
	struct kw_answers a = {0};
	KW_EACH(e, reply) {
		if (kw_equal(e.name, KW("answers"))) a.answers = kw_pairs(e.value);
		else if (kw_equal(e.name, KW("status"))) a.status = kw_integer(e.value);
		else if (kw_equal(e.name, KW("count"))) a.count = kw_integer(e.value);
		else if (kw_equal(e.name, KW("clock_change"))) a.clock_change = kw_integer(e.value);
	}
	return a;
}

// kw_challenge returns what the plugin knows from answers of the API. Call it before kw_request and kw_body.
static inline struct kw_answers kw_challenge(void) { return kw_answers(kw_take(kw_host_challenge())); }

// kw_lifetime returns for how many seconds what has been answered is valid, by the answers expires_in or expires_at. The latter is a time
// of the API's clock. If neither was found, it returns usual.
static inline int64_t kw_lifetime(struct kw_answers a, int64_t usual) {
	kw_text in = kw_get(a.answers, KW("expires_in")), at = kw_get(a.answers, KW("expires_at"));
	if (kw_length(in)) return kw_integer(in);
	if (!kw_length(at)) return usual;
	int64_t left = kw_integer(at) - kw_now(), offset = kw_clock_offset();
	return left > offset ? left - offset : left; // a new token is not over: the host's clock was set right since the offset was learnt
}

// struct kw_exchange is a request to a URL of the configuration. json is JSON, and excludes form. kw_exchange: token.
struct kw_exchange {
	kw_text url, method, json;
	struct kw_texts path, answers;
	struct kw_pairs query, headers, form;
};
static inline struct kw_answers kw_exchange(struct kw_exchange x) {
	struct kw_members o = {0};
	kw_string(&o, KW("url"), x.url);
	kw_names(&o, KW("path"), x.path);
	kw_list(&o, KW("query"), x.query);
	kw_optional(&o, KW("method"), x.method);
	kw_list(&o, KW("headers"), x.headers);
	kw_list(&o, KW("form"), x.form);
	if (kw_length(x.json)) kw_raw(&o, KW("json"), x.json);
	kw_names(&o, KW("answers"), x.answers);
	return kw_answers(kw_take(kw_host_exchange(kw_give(kw_object(&o)))));
}

// The request. After these functions, the call can use neither the cache nor an endpoint.

// struct kw_request is the outgoing request. content_length is -1 if it is not known.
struct kw_request {
	kw_text method, url;
	struct kw_pairs headers;
	int64_t content_length;
};
static inline struct kw_request kw_request(void) {
	struct kw_request r = {.content_length = -1};
	KW_EACH(e, kw_take(kw_host_input_offset())) {
		if (kw_equal(e.name, KW("method"))) r.method = kw_value(e.value);
		else if (kw_equal(e.name, KW("url"))) r.url = kw_value(e.value);
		else if (kw_equal(e.name, KW("headers"))) r.headers = kw_pairs(e.value);
		else if (kw_equal(e.name, KW("content_length"))) r.content_length = kw_integer(e.value);
	}
	return r;
}

// kw_split returns the path and the query of a URL, as they are sent. It sets scheme and authority, which are in lower case and without
// the default port, unless they are 0.
static inline kw_text kw_split(kw_text url, kw_text *scheme, kw_text *authority) {
	uint32_t colon = kw_find(url, 0, KW(":")), from = colon + 3, to = kw_find(url, from, KW("/?#"));
	kw_text first = kw_lower(kw_slice(url, 0, colon)), second = kw_lower(kw_slice(url, from, to)), port = kw_equal(first, KW("http")) ? KW(":80") : KW(":443");
	if (second->length >= port->length && kw_equal(kw_slice(second, second->length - port->length, second->length), port))
		second = kw_slice(second, 0, second->length - port->length);
	if (scheme) *scheme = first;
	if (authority) *authority = second;
	kw_text target = kw_slice(url, to, kw_find(url, to, KW("#")));
	return target->length && target->at[0] == '/' ? target : KW_JOIN(KW("/"), target);
}

// kw_body returns a sealed value that stands for the body, for kw_digest and kw_mac. kw_body_form returns the members of a form; at
// is 0 if the body is none. Both: body.
static inline kw_text kw_body(void) { return kw_take(kw_host_body()); }
static inline struct kw_pairs kw_body_form(void) {
	kw_text list = kw_take(kw_host_body_form());
	return list ? kw_pairs(list) : (struct kw_pairs){0, 0};
}

// kw_composed is kw_compose_later if later is set.
static inline kw_text kw_composed(kw_text text, struct kw_mutation changes, struct kw_pairs values, bool later) {
	struct kw_members o = {0};
	kw_list(&o, KW("headers"), changes.headers);
	kw_list(&o, KW("query"), changes.query);
	kw_list(&o, KW("form"), changes.form);
	kw_list(&o, KW("values"), values);
	kw_flag(&o, KW("later"), later);
	return kw_take(kw_host_compose(kw_give(text), kw_give(kw_object(&o))));
}
// kw_compose returns a text of the outgoing request by a template, such as "{method}\n{target}\n{body|sha256|hex}". kw_compose_with is
// the same for a request with the headers, query and form of a mutation; values are further placeholders. A call can use the cache and
// an endpoint as long as no placeholder is of the request. {body}: body.
static inline kw_text kw_compose_with(kw_text text, struct kw_mutation changes, struct kw_pairs values) { return kw_composed(text, changes, values, false); }
// kw_compose_later returns a reference in place of the text, so that the host may do the same for the next request without the plugin.
static inline kw_text kw_compose_later(kw_text text, struct kw_mutation changes, struct kw_pairs values) { return kw_composed(text, changes, values, true); }
static inline kw_text kw_compose(kw_text text) { return kw_take(kw_host_compose(kw_give(text), 0)); }

// kw_compose_object composes the texts of a JSON object or list, at any depth. Names of members stay as they are.
static inline kw_text kw_compose_object(kw_text json, struct kw_pairs values) {
	uint32_t i = kw_space(json, 0);
	char c = i < kw_length(json) ? json->at[i] : 0;
	if (c == '"') return kw_quote(kw_compose_with(kw_value(kw_slice(json, i, json->length)), (struct kw_mutation){0}, values));
	if (c != '{' && c != '[') return json;
	kw_text all = c == '{' ? KW("{") : KW("["), separator = KW("");
	KW_EACH(e, json) {
		all = KW_JOIN(all, separator, c == '{' ? KW_JOIN(kw_quote(e.name), KW(":")) : KW(""), kw_compose_object(e.value, values));
		separator = KW(",");
	}
	return KW_JOIN(all, c == '{' ? KW("}") : KW("]"));
}

// kw_parts returns a value for each member of an object field whose values are templates, in the order of their names. A template may use
// the values of those before it.
static inline struct kw_pairs kw_parts(kw_text field) {
	struct kw_pairs templates = kw_pairs(kw_config(field));
	struct kw_pair *values = kw_room(templates.length * sizeof *values);
	for (uint32_t i = 0; i < templates.length; i++)
		values[i] = (struct kw_pair){templates.at[i].name, kw_compose_with(templates.at[i].value, (struct kw_mutation){0}, (struct kw_pairs){values, i})};
	return (struct kw_pairs){values, templates.length};
}

// struct kw_code is the code with which a user came back from consent. kw_code is for connect.
struct kw_code {
	kw_text code, verifier, redirect_uri;
};
static inline struct kw_code kw_code(void) {
	struct kw_pairs p = kw_pairs(kw_take(kw_host_input_offset()));
	return (struct kw_code){kw_get(p, KW("code")), kw_get(p, KW("code_verifier")), kw_get(p, KW("redirect_uri"))};
}
