// Package hosttest tests a plugin as its users will meet it: each test runs twice, with the plugin as plain Go, where a
// debugger and a stack trace help, and with the compiled module in the sandbox of a real host.
//
//	func TestAuthenticate(t *testing.T) {
//		hosttest.Run(t, plugin{}, "oauthcc.wasm", func(t *testing.T, h *hosttest.Harness) {
//			h.Canary("crm") // a secret that nothing may show
//			h.TokenEndpoint("https://login.test/token", hosttest.Token("first-token", 300), hosttest.Token("second-token", 300))
//			config := hosttest.Config{
//				"client_id": "me", "client_secret": "{{ get_secret('crm') }}", "token_url": "https://login.test/token",
//			}
//
//			got := h.Authenticate(config, hosttest.GET("https://api.test/v1"))
//			if got.Header("Authorization") != "Bearer first-token" {
//				t.Errorf("Authorization: %s", got.Header("Authorization"))
//			}
//			h.Advance(239 * time.Second) // the token is cached until a minute before it ends
//			h.Authenticate(config, hosttest.GET("https://api.test/v1"))
//			if n := len(h.Exchanges()); n != 1 {
//				t.Errorf("%d exchanges", n)
//			}
//		})
//	}
//
// Time, randomness, secrets, users, the token endpoint and the API belong to the test. There is no network: a request to
// a URL that the test has no answer for fails it.
//
// # What is always checked
//
// When a test ends, nothing that is to stay in the host may have come out of it: no secret ([Harness.Canary],
// [Harness.Secret]), no literal of a sealed or key field, no token that the token endpoint gave, no signed JWT, and no
// credential that an Authorization header left with. They are searched for, plain, in base64 at every alignment, in hex,
// URL-encoded and escaped, in log lines of every level, errors, configuration problems and explanations, and in the
// sandbox in the guest's memory and memory blocks after each call. What is shorter than 8 bytes is not searched for; a
// token that is so short fails the test, since any real one is longer.
//
// # The compiled module
//
// A module that is missing, or that was not compiled from the sources that the test sees, fails the test: it is never
// skipped. `go run ./tools/plugin build` records in a module what it was made of.
//
// A plugin with the grant reveal ([Harness.Grant]) may have in its memory what it has revealed, and once it has revealed
// anything, what it puts into a request. Other secrets may not be there, and nothing of either may be in logs or errors.
//
// An auth type that one of the host's own plugins has fails the test: no host would load the plugin beside it.
//
// # What the native run does not have
//
// The limits of the sandbox, and its promise that each call begins in the same state: what a plugin keeps in a variable
// is there at the next call. That is why the sandbox runs the same test again. A plugin that has not ended after a minute
// fails the test, which says where it was, and goes on.
package hosttest
