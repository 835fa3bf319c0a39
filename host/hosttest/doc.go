// Package hosttest tests a plugin as its users run it. It runs each test twice: with the compiled module in the sandbox of a
// real host, and with the plugin as plain Go, where a debugger and stack traces work.
//
// The test controls time, randomness, secrets, users, the token endpoint and the API. There is no network: a request to
// a URL for which the test has no answer fails the test.
//
// The states of a plugin (sdk.State) are in a store in memory, which outlives [Harness.Restart]. Its values are searched for
// credentials, too. A new refresh token is one of the token endpoint's answers. A grant is uncertain for a while after an
// [Unreachable], because the harness has no connections, and after a JSON(500, …): the error of the request wraps a [host.GrantError].
//
// # Leaks
//
// At its end, each test checks that no credential has leaked from the host:
//
//   - secrets ([Harness.Canary], [Harness.Secret]);
//   - literals of sealed fields and key fields;
//   - tokens that the token endpoint issued;
//   - signed JWTs;
//   - credentials of Authorization headers.
//
// It searches log lines of every level, errors, configuration problems and explanations. In the sandbox, it also searches
// the memory and the memory blocks of the guest after each call, in which texts may be UTF-16. It searches for each credential in
// plain, in base64 and base32 at every alignment, in hex, URL-encoded and escaped. Texts shorter than 8 bytes are not searched
// for. A token that is shorter fails the test, since any real one is longer.
//
// A plugin with the grant reveal ([Harness.Grant]) may have the values that it has revealed in its memory. After it has
// revealed any, it may also have the credentials that it puts into a request there. No other secret may be in its memory,
// and none of these values may be in logs or errors.
//
// # Seeing what happens
//
// With go test -v, each call in the sandbox logs what it did: the texts that were signed or hashed, the requests to token
// endpoints, and what the request to the API gets. Credentials are masked, as in [host.Explanation]. A request whose token or
// mutation comes from an earlier call logs less, or nothing.
//
// When a plugin panics or traps, the test logs the lines that the host has logged of the call: the text of the panic is among
// them, if the compiler keeps it, as that of make tinygo does.
//
// Package cases runs tests without code, and package conform the checks that hold for any plugin.
//
// # The compiled module
//
// The test fails if the module is missing, or if it was not compiled from the current sources. It is never skipped.
// `go run ./tools/plugin build` records in a module a digest of its sources.
//
// The test fails if the plugin has the auth type of a built-in plugin, because no host would load both.
//
// # The native run
//
// The native run has no limits of the sandbox, and calls do not begin in the same state: a variable of the plugin keeps
// its value until the next call. The sandbox run covers both. A native plugin that has not ended after a minute fails the
// test, which logs its stack and continues. After a failure in the sandbox, such as that of a loop, it has three seconds.
package hosttest
