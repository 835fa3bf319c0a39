// The part of the contract (ABI.md) that the plugin needs: host functions, texts, and the JSON of the host's documents. There
// is no C library. Memory is put back after each call of the plugin, so nothing is freed.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define KW_IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define KW_EXPORT(name) __attribute__((export_name(#name)))

// Host functions. Parameters and results are offsets of memory blocks, unless they have another name or type.
KW_IMPORT("extism:host/env", "config_get") uint64_t kw_config_get(uint64_t name);
KW_IMPORT("extism:host/env", "input_offset") uint64_t kw_input_offset(void);
KW_IMPORT("extism:host/env", "output_set") void kw_output_set(uint64_t block, uint64_t length);
KW_IMPORT("extism:host/env", "error_set") void kw_error_set(uint64_t block);
KW_IMPORT("extism:host/env", "length") uint64_t kw_length(uint64_t block);
KW_IMPORT("extism:host/user", "block_new") uint64_t kw_block_new(const void *address, uint32_t length);
KW_IMPORT("extism:host/user", "block_read") uint64_t kw_block_read(uint64_t block, void *address, uint32_t room);
KW_IMPORT("extism:host/user", "cache_get") uint64_t kw_cache_get(uint64_t key);
KW_IMPORT("extism:host/user", "cache_set") void kw_cache_set(uint64_t key, uint64_t value, uint64_t seconds);
KW_IMPORT("extism:host/user", "cache_drop") uint64_t kw_cache_drop(uint64_t key);
KW_IMPORT("extism:host/user", "challenge") uint64_t kw_challenge(void);
KW_IMPORT("extism:host/user", "exchange") uint64_t kw_exchange(uint64_t request);
KW_IMPORT("extism:host/user", "random") uint64_t kw_random(uint64_t length);
KW_IMPORT("extism:host/user", "encode") uint64_t kw_encode(uint64_t format, uint64_t text);
KW_IMPORT("extism:host/user", "decode") uint64_t kw_decode(uint64_t format, uint64_t text);
KW_IMPORT("extism:host/user", "digest") uint64_t kw_digest(uint64_t algorithm, uint64_t data);
KW_IMPORT("extism:host/user", "mac") uint64_t kw_mac(uint64_t algorithm, uint64_t key, uint64_t data);
KW_IMPORT("extism:host/user", "sign_sealed") uint64_t kw_sign_sealed(uint64_t field, uint64_t purpose, uint64_t data);
KW_IMPORT("extism:host/user", "public_key") uint64_t kw_public_key(uint64_t field, uint64_t form);
KW_IMPORT("extism:host/user", "body") uint64_t kw_body(void);

// A text of UTF-8 or of bytes.
typedef struct {
	const char *at;
	uint32_t length;
} text;

// room returns the address of unused memory. It ends the call if there is none left.
static inline char *room(uint32_t length) {
	static char arena[64 << 10];
	static uint32_t used;
	if (length > sizeof arena - used) __builtin_trap();
	used += length;
	return arena + used - length;
}

static inline text str(const char *s) {
	uint32_t n = 0;
	while (s[n]) n++;
	return (text){s, n};
}

static inline int equal(text a, text b) {
	if (a.length != b.length) return 0;
	for (uint32_t i = 0; i < a.length; i++)
		if (a.at[i] != b.at[i]) return 0;
	return 1;
}

// JOIN returns texts one after the other.
#define JOIN(...) join((const text[]){__VA_ARGS__}, sizeof((const text[]){__VA_ARGS__}) / sizeof(text))
static inline text join(const text *parts, uint32_t count) {
	uint32_t n = 0;
	for (uint32_t i = 0; i < count; i++) n += parts[i].length;
	char *at = room(n), *to = at;
	for (uint32_t i = 0; i < count; i++) {
		__builtin_memcpy(to, parts[i].at, parts[i].length);
		to += parts[i].length;
	}
	return (text){at, n};
}

// give returns a memory block with a text. take returns the text of a block, or no text if there is no block.
static inline uint64_t give(text t) { return kw_block_new(t.at, t.length); }
static inline text take(uint64_t block) {
	uint32_t n = (uint32_t)kw_length(block);
	char *at = room(n);
	kw_block_read(block, at, n);
	return (text){at, n};
}

static inline text config(const char *name) { return take(kw_config_get(give(str(name)))); }
static inline text encode(const char *format, text t) { return take(kw_encode(give(str(format)), give(t))); }
static inline text decode(const char *format, text t) { return take(kw_decode(give(str(format)), give(t))); }
static inline text sha256(text data) { return take(kw_digest(give(str("sha256")), give(data))); }

// quote returns a text as a JSON string.
static inline text quote(text t) {
	static const char digits[] = "0123456789abcdef";
	char *at = room(6 * t.length + 2), *to = at;
	*to++ = '"';
	for (uint32_t i = 0; i < t.length; i++) {
		unsigned char c = (unsigned char)t.at[i];
		if (c < ' ') {
			__builtin_memcpy(to, "\\u00", 4);
			to += 4;
			*to++ = digits[c >> 4];
			*to++ = digits[c & 15];
			continue;
		}
		if (c == '"' || c == '\\') *to++ = '\\';
		*to++ = (char)c;
	}
	*to++ = '"';
	return (text){at, (uint32_t)(to - at)};
}

// pair returns a name and a value as an object of a list, with a name that needs no escapes.
static inline text pair(const char *name, text value) {
	return JOIN(str("{\"name\":\""), str(name), str("\",\"value\":"), quote(value), str("}"));
}

// member returns the first string or number with a name in a document of the host, or no text. It decodes no escapes: sealed values,
// numbers, methods and names of enums have none.
static inline text member(text document, const char *name) {
	text key = JOIN(str("\""), str(name), str("\":"));
	for (uint32_t i = 0; i + key.length < document.length; i++) {
		if (!equal((text){document.at + i, key.length}, key)) continue;
		uint32_t from = i + key.length, quoted = document.at[from] == '"', to = from += quoted;
		while (to < document.length && (quoted ? document.at[to] != '"' : document.at[to] >= '0' && document.at[to] <= '9')) to++;
		return (text){document.at + from, to - from};
	}
	return (text){"", 0};
}

// done sets the output of an export, and returns success. failed sets its error message, and returns failure.
static inline int32_t done(text output) {
	kw_output_set(give(output), output.length);
	return 0;
}
static inline int32_t failed(text reason) {
	kw_error_set(give(reason));
	return 1;
}
