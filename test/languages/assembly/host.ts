// The host functions of Keywright that the plugins use, and error_set, which the Extism PDK does not export. Parameters and
// results are offsets of Extism memory blocks, unless their names say something else. ABI.md has all host functions.

import { Config, Host, Memory } from "@extism/as-pdk";
import { error_set, length } from "@extism/as-pdk/lib/env";

@external("extism:host/user", "token_request")
declare function token_request(request: u64): u64;
@external("extism:host/user", "cache_get")
declare function cache_get(key: u64): u64; // 0 if the key is not in the cache
@external("extism:host/user", "cache_set")
declare function cache_set(key: u64, value: u64, ttlSeconds: i64): void;

@external("extism:host/user", "cache_drop")
declare function cache_drop(key: u64): u64; // 1 if a new value may help
@external("extism:host/user", "challenge")
declare function api_challenge(): u64;
@external("extism:host/user", "exchange")
declare function host_exchange(request: u64): u64;
@external("extism:host/user", "random")
declare function host_random(bytes: i64): u64;
@external("extism:host/user", "encode")
declare function host_encode(format: u64, text: u64): u64;
@external("extism:host/user", "decode")
declare function host_decode(format: u64, text: u64): u64;
@external("extism:host/user", "digest")
declare function host_digest(algorithm: u64, data: u64): u64;
@external("extism:host/user", "mac")
declare function host_mac(algorithm: u64, key: u64, data: u64): u64;
@external("extism:host/user", "sign_sealed")
declare function sign_sealed(field: u64, purpose: u64, data: u64): u64;
@external("extism:host/user", "public_key")
declare function public_key(field: u64, form: u64): u64;
@external("extism:host/user", "body")
declare function host_body(): u64;

function block(text: string): u64 {
  return Memory.allocateString(text).offset;
}

function text(offset: u64): string {
  return new Memory(offset, length(offset)).toString();
}

export function requestToken(request: string): string {
  return text(token_request(block(request)));
}

export function cached(key: string): string | null {
  const offset = cache_get(block(key));
  return offset == 0 ? null : text(offset);
}

export function cache(key: string, value: string, ttlSeconds: i64): void {
  cache_set(block(key), block(value), ttlSeconds);
}

// config returns a field of the configuration, or "" if it is absent.
export function config(name: string): string {
  const value = Config.get(name);
  return value === null ? "" : value;
}

// drop removes an entry of the cache, and reports whether a new value may help.
export function drop(key: string): bool {
  return cache_drop(block(key)) == 1;
}

export function challenge(): string {
  return text(api_challenge());
}

export function exchange(request: string): string {
  return text(host_exchange(block(request)));
}

// random returns random bytes in hex.
export function random(bytes: i64): string {
  return text(host_random(bytes));
}

export function encode(format: string, value: string): string {
  return text(host_encode(block(format), block(value)));
}

// decode returns the bytes of a sealed value as another one. Plain bytes would have to be UTF-8.
export function decode(format: string, value: string): string {
  return text(host_decode(block(format), block(value)));
}

// hexDigest returns a digest in hex. A digest of the body alone is plain bytes, which a string cannot hold, so they stay in their
// memory block.
export function hexDigest(algorithm: string, data: string): string {
  return text(host_encode(block("hex"), host_digest(block(algorithm), block(data))));
}

export function mac(algorithm: string, key: string, data: string): string {
  return text(host_mac(block(algorithm), block(key), block(data)));
}

export function signSealed(field: string, purpose: string, data: string): string {
  return text(sign_sealed(block(field), block(purpose), block(data)));
}

export function publicKey(field: string, form: string): string {
  return text(public_key(block(field), block(form)));
}

// body returns a sealed value that stands for the body of the request.
export function body(): string {
  return text(host_body());
}

// done sets the output of an export, and returns success.
export function done(output: string): i32 {
  // Host.outputString would pass the length in UTF-16 units, and the host expects bytes.
  Host.output(Uint8Array.wrap(String.UTF8.encode(output)));
  return 0;
}

// failed sets the error message of an export, and returns failure.
export function failed(reason: string): i32 {
  error_set(block(reason));
  return 1;
}

// abort replaces AssemblyScript's abort, which would be an import from a module that the host does not have.
export function abort(message: string | null, _file: string | null, _line: u32, _column: u32): void {
  failed(message === null ? "aborted" : message);
  unreachable();
}
