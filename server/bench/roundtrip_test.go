package bench

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/oauth2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/testworld"
)

// roundTripRows returns the rows for the cost of each request to an application: RoundTrip over a base that responds at once.
func roundTripRows() (all []row) {
	for _, authType := range []string{"api_key", "oauth_client_credentials", "oauth_jwt_bearer"} {
		work, exchanges := "RoundTrip, "+authType, int64(0)
		if authType != "api_key" {
			work, exchanges = work+", cached token", 1
		}
		all = append(all, row{
			work: work, against: "x/oauth2 v0.37.0, valid token", unit: nanoseconds, goal: 0.7,
			measure: func(s session) result {
				b := &base{}
				c, r := connected(s, b, authOf(authType)), request(s.Context())
				defer b.check(s, exchanges)
				return s.pair(roundTrip(c.Transport(b), r), roundTrip(&oauth2.Transport{Base: b, Source: validToken()}, r))
			},
		})
	}
	return append(all, longTokenRow())
}

// check fails the test unless the token endpoint had so many requests.
func (b *base) check(t testing.TB, want int64) {
	t.Helper()
	if got := b.exchanges.Load(); got != want {
		t.Errorf("tokens were asked for %d times, want %d", got, want)
	}
}

// validToken returns the source of a token with an expiry, so that each request checks the time.
func validToken() oauth2.TokenSource {
	token := &oauth2.Token{AccessToken: accessToken, TokenType: "Bearer", Expiry: time.Now().Add(time.Hour)}
	return oauth2.ReuseTokenSource(token, noTokens{})
}

type noTokens struct{}

func (noTokens) Token() (*oauth2.Token, error) { return nil, errors.New("the token was to be valid") }

// longTokenRow returns the row for what the search of the answer costs with a long credential.
func longTokenRow() row {
	return row{
		work: "RoundTrip with a search of the answer, a token of 8,000 bytes", against: "the same with 200 bytes", unit: nanoseconds, goal: 1.2,
		measure: func(s session) result {
			var sides [2]op
			for i, length := range []int{8000, 200} {
				b := &base{body: weather, answer: strings.Replace(bearerToken, accessToken, textOf(length), 1)}
				transport := connected(s, b, authOf("oauth_client_credentials")).GuardedTransport(authorized{b})
				sides[i].run = func() error { return fetch(s.Context(), transport, apiURL, io.Discard) }
			}
			return s.pair(sides[0], sides[1])
		},
	}
}

// textOf returns random text of a length in bytes.
func textOf(length int) string {
	text := ""
	for len(text) < length {
		text += rand.Text()
	}
	return text[:length]
}

// allocationRows returns the row for the allocations of RoundTrip beyond those of cloning and sending the request.
func allocationRows() []row {
	return []row{{
		work: "RoundTrip, api_key: allocations beyond the request's clone ÷ 2", against: "2 allocations", unit: number, goal: 1,
		measure: func(s session) result {
			b := &base{}
			transport, r := connected(s, b, apiKeyAuth).Transport(b), request(s.Context())
			return s.bound(2, func() float64 {
				all := testing.AllocsPerRun(1000, func() { testworld.Check(s, send(transport, r)) })
				clone := testing.AllocsPerRun(1000, func() { testworld.Check(s, send(b, r.Clone(s.Context()))) })
				return max(all-clone, 0)
			})
		},
	}}
}

// answer is an answer of the token endpoint with all members that the exchanging types look for.
const answer = `{"access_token":"` + accessToken + `","token_type":%q,"expires_in":3600,"token":"` + accessToken + `","expires_at":"2099-01-01T00:00:00Z",` +
	`"AssumeRoleResponse":{"AssumeRoleResult":{"Credentials":{"AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"` + accessToken +
	`","SessionToken":"` + accessToken + `","Expiration":"2099-01-01T00:00:00Z"}}}}`

// exchanging holds configurations of the types that get a credential in exchange for another, beside oauth_client_credentials.
var exchanging = []host.Auth{
	authOf("oauth_jwt_bearer"),
	withClient("oauth_password", map[string]any{"username": "ann", "password": "{{ get_secret('key') }}"}),
	withClient("token_exchange", map[string]any{"subject_token": "{{ get_secret('key') }}"}),
	{Type: "login", Config: map[string]any{
		"login_url": tokenURL, "login_body": map[string]any{"password": "{{ get_secret('key') }}"}, "token_from": "json:/token",
		"key": "Authorization", "prefix": "Bearer",
	}},
	{Type: "github_app", Config: map[string]any{
		"client_id": "me", "installation_id": 1, "private_key": "{{ get_secret('RS256') }}", "api_url": "https://" + loginHost,
	}},
	{Type: "google_service_account", Config: map[string]any{
		"client_email": "me@project.test", "private_key": "{{ get_secret('RS256') }}", "token_url": tokenURL, "scope": "read",
	}},
	withClient("dpop", nil),
	authOfRole,
}

var authOfRole = host.Auth{Type: "aws_assume_role", Config: map[string]any{
	"access_key_id": awsKeyID, "secret_access_key": "{{ get_secret('key') }}", "role_arn": "arn:aws:iam::123456789012:role/bench",
	"sts_url": "https://" + loginHost + "/", "region": awsRegion, "service": awsService,
}}

func withClient(authType string, fields map[string]any) host.Auth {
	config := map[string]any{"client_id": "me", "client_secret": "{{ get_secret('client') }}", "token_url": tokenURL}
	maps.Copy(config, fields)
	return host.Auth{Type: authType, Config: config}
}

// exchangingRows returns the rows that compare each exchanging type with oauth_client_credentials, both cached.
func exchangingRows() (all []row) {
	for _, a := range exchanging {
		work := "RoundTrip, " + a.Type + ", cached token"
		if a.Type == "dpop" || a.Type == authOfRole.Type {
			work = "RoundTrip, " + a.Type + " signing each request"
		}
		all = append(all, row{
			work: work, against: "the same of oauth_client_credentials", unit: nanoseconds, goal: 1.1,
			measure: func(s session) result {
				ours, theirs := &base{answer: fmt.Sprintf(answer, map[bool]string{true: "DPoP", false: "Bearer"}[a.Type == "dpop"])}, &base{}
				defer theirs.check(s, 1)
				defer ours.check(s, 1)
				return s.pair(cachedRoundTrip(s, ours, a), cachedRoundTrip(s, theirs, authOf("oauth_client_credentials")))
			},
		})
	}
	return all
}

func cachedRoundTrip(t testing.TB, b *base, a host.Auth) op {
	return roundTrip(connected(t, b, a).Transport(authorized{b}), request(t.Context()))
}

// authorized is a base that refuses requests without a credential.
type authorized struct{ *base }

func (b authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != loginHost && len(r.Header["Authorization"]) != 1 {
		return nil, errors.New("the request has no credential")
	}
	return b.base.RoundTrip(r)
}

// exchangeRows returns the row for 10,000 concurrent requests with the same expired token.
func exchangeRows() []row {
	return []row{{
		work: "10,000 requests at once on an expired token: exchanges ÷ 1", against: "1 exchange", unit: number, goal: 1,
		measure: func(s session) result { return s.bound(1, func() float64 { return exchanges(s) }) },
	}}
}

func exchanges(s session) float64 {
	var later atomic.Int64 // how far the clock is ahead
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	b := &base{}
	transport := connected(s, b, authOf("oauth_client_credentials"), func(config *host.Config) { config.Clock = clock }).Transport(b)
	testworld.Check(s, send(transport, request(s.Context())))
	b.check(s, 1)
	later.Store(int64(2 * time.Hour))
	b.answering = make(chan struct{}) // all requests come during the exchange
	var starts, wait sync.WaitGroup
	errs, start := make([]error, 10_000), make(chan struct{})
	starts.Add(len(errs))
	for i := range errs {
		wait.Go(func() {
			<-start
			starts.Done()
			errs[i] = send(transport, request(s.Context()))
		})
	}
	close(start)
	starts.Wait()
	close(b.answering)
	wait.Wait()
	testworld.Check(s, errors.Join(errs...))
	return float64(b.exchanges.Load() - 1)
}

var (
	// peerWasm is compiled from server/bench/peer with the same compiler as the built-in plugins.
	//
	//go:embed peer/peer.wasm
	peerWasm []byte
	// guestWasm is compiled from server/bench/guest like plugins.
	//
	//go:embed guest/guest.wasm
	guestWasm []byte
)

// callRows returns the rows for one call of the api_key plugin. Our side does more than the call: it checks and clones the
// request, reads the secret, and checks and applies the mutation. The peer only returns the mutation. The peer's plugin gets
// the three values of the configuration as its input, which is the cheapest way that go-sdk offers.
func callRows() (all []row) {
	for _, instances := range []struct {
		name string
		goal float64
		work func(session, *extism.CompiledPlugin) op
	}{
		{"a fresh instance each", 1.0 / 70, freshInstances},
		{"one instance", 1.0 / 12, oneInstance},
	} {
		all = append(all, row{
			work: "one call of the api_key plugin, reuse of mutations off", against: "extism/go-sdk v1.7.1, " + instances.name,
			unit: nanoseconds, goal: instances.goal,
			measure: func(s session) result {
				compiled, err := extism.NewCompiledPlugin(s.Context(), extism.Manifest{
					Wasm:    []extism.Wasm{extism.WasmData{Data: peerWasm}},
					Timeout: 1000, // milliseconds
				}, extism.PluginConfig{EnableWasi: true}, nil) // without WASI, it does not call _initialize
				testworld.Check(s, err)
				defer compiled.Close(s.Context())
				c := connected(s, &base{}, apiKeyAuth, withoutReuse)
				return s.pair(roundTrip(c.Transport(keyed{}), request(s.Context())), instances.work(s, compiled))
			},
		})
	}
	return all
}

// keyed is a base that responds at once if the key is in the request, and fails otherwise.
type keyed struct{}

func (keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if key := r.Header["X-Api-Key"]; len(key) != 1 || key[0] != apiKey {
		return nil, errors.New("the key is not in the request")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

var peerInput = []byte("X-API-Key\n" + apiKey + "\nheader")

// call calls the peer's plugin, and checks its output.
func call(plugin *extism.Plugin) error {
	const want = `{"headers":[{"name":"X-API-Key","value":"` + apiKey + `"}]}`
	code, output, err := plugin.Call("authenticate", peerInput)
	if err == nil && (code != 0 || string(output) != want) {
		err = fmt.Errorf("the peer's plugin gave %d and %q", code, output)
	}
	return err
}

func freshInstances(s session, compiled *extism.CompiledPlugin) op {
	return op{run: func() error {
		plugin, err := compiled.Instance(s.Context(), extism.PluginInstanceConfig{})
		if err != nil {
			return err
		}
		return errors.Join(call(plugin), plugin.Close(s.Context()))
	}}
}

// oneInstance uses each instance for 250 calls, because the plugin never frees memory.
func oneInstance(s session, compiled *extism.CompiledPlugin) op {
	var plugin *extism.Plugin
	return op{
		batch: 250,
		before: func() (err error) {
			if plugin != nil {
				testworld.Check(s, plugin.Close(s.Context()))
			}
			plugin = testworld.Must(compiled.Instance(s.Context(), extism.PluginInstanceConfig{}))(s)
			return call(plugin) // the first call initializes the instance
		},
		run: func() error { return call(plugin) },
	}
}

// meteringRows returns the rows for the cost of fuel in code that only computes: the original module and the one that package
// admission makes from it, both in plain wazero.
func meteringRows() (all []row) {
	for _, export := range []string{"base64", "json"} {
		all = append(all, row{
			work: "metered guest code, " + export + " of 300 bytes, there and back", against: "the same, unmetered",
			unit: nanoseconds, goal: 1.25,
			measure: func(s session) result {
				limits := host.Limits{}.WithDefaults()
				admitted := testworld.Must(admission.Admit(guestWasm, admission.Limits{ModuleBytes: limits.ModuleBytes, MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel}))(s)
				return s.pair(guestWork(s, admitted.Wasm, export, true), guestWork(s, guestWasm, export, false))
			},
		})
	}
	return all
}

// guestWork calls an export of a module, fifty times on each instance, because the guest never frees memory.
func guestWork(s session, wasm []byte, export string, metered bool) op {
	const plenty = 1 << 40
	ctx := context.WithoutCancel(s.Context())
	runtime := wazero.NewRuntime(ctx)
	s.Cleanup(func() { _ = runtime.Close(ctx) })
	compiled := testworld.Must(runtime.CompileModule(ctx, wasm))(s)
	var (
		instance api.Module
		function api.Function
		fuel     api.MutableGlobal // nil if the module is not metered
		stack    [1]uint64
	)
	call := func() error {
		if fuel != nil {
			fuel.Set(plenty)
		}
		if err := function.CallWithStack(ctx, stack[:]); err != nil {
			return err
		}
		if stack[0] != 0 {
			return errors.New("the guest says that it failed")
		}
		return nil
	}
	return op{
		batch: 50,
		before: func() (err error) {
			if instance != nil {
				testworld.Check(s, instance.Close(ctx))
			}
			instance = testworld.Must(runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")))(s)
			function = instance.ExportedFunction(export)
			fuel, _ = instance.ExportedGlobal(admission.FuelExport).(api.MutableGlobal)
			if metered != (fuel != nil) {
				return errors.New("the wrong one of the two has fuel")
			}
			return call() // initialization must not be measured
		},
		run: call,
	}
}
