// The host functions of Keywright that this plugin uses, and error_set, which the Extism PDK does not export. Parameters and
// results are offsets of Extism memory blocks, unless their names say something else. ABI.md has all host functions.

import { Host, Memory } from "@extism/as-pdk";
import { error_set, length } from "@extism/as-pdk/lib/env";

@external("extism:host/user", "token_request")
declare function token_request(request: u64): u64;
@external("extism:host/user", "cache_get")
declare function cache_get(key: u64): u64; // 0 if the key is not in the cache
@external("extism:host/user", "cache_set")
declare function cache_set(key: u64, value: u64, ttlSeconds: i64): void;

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
