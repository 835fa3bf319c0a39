// Its description has the time of WASI's clock, so that it is another one each time.
#include "keywright.h"

__attribute__((import_module("wasi_snapshot_preview1"), import_name("clock_time_get"))) int32_t clock_time_get(int32_t id, int64_t precision, int64_t *time);

KW_EXPORT(describe) {
	int64_t nanoseconds = 0;
	clock_time_get(0, 1, &nanoseconds);
	return kw_done(KW_JOIN(KW("{\"abi\":1,\"type\":\"unsteady\",\"version\":\"1.0.0\",\"summary\":\"Built at "), kw_decimal(nanoseconds),
		KW(".\",\"fields\":[{\"name\":\"key\",\"kind\":\"string\",\"required\":true,\"sealed\":true,\"sinks\":[\"header\"]}]}")));
}

KW_EXPORT(authenticate) { return kw_mutate(kw_header(KW("X-Key"), kw_config(KW("key")))); }
