// Package hostfn implements the host functions of one call.
//
// A [Call] implements contract.Env. It embeds groups: core, report, rendering, cacheUse, keyUse, grantUse and exchanging. Their methods
// either succeed or end the call: they store a [Failure] or a [Restart] and panic, and the caller that runs the guest recovers and
// reads it. The package does not depend on WebAssembly, so that the same functions serve a guest in the sandbox and one that runs
// natively in a test.
package hostfn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
)

// Limits holds the limits of a call. Each field has the meaning of the field of host.Limits with the same name.
type Limits struct {
	TokenRequests, KeyRequests, TokenBytes, LogLines, CacheBytes, Mutations int
}

// Limits that no operator sets, and sizes. Lengths are in bytes.
const (
	maxBodyReads     = 8            // times that a call reads the body
	maxSignatures    = 16           // signatures of a call: one with RSA-4096 takes some 5 ms, and costs the guest no fuel
	maxCompared      = 16 << 20     // work of comparing with patterns, in instructions for a byte: some tenths of a second
	maxTTL           = 1 << 31      // seconds that an entry lives: more might not fit into a time.Duration
	maxCacheKey      = 256          // length of a key of the cache
	maxChallenge     = 1 << 10      // length of a sealed answer of an API
	maxCodeParameter = 64           // length of the name of the parameter that has the code
	maxForm          = 64 << 10     // length of a form that BodyForm returns
	maxChain         = 64 << 10     // length of the text of a field of kind certificate
	maxCertificates  = 16           // certificates of it that a JWT can have
	maxLogLine       = 4 << 10      // length of a log line: a longer one is cut
	maxSignature     = 1 << 10      // length of a signature in a JWT, approximately
	maxStoreData     = seal.MaxText // length of data that a store of keys signs
	explainedSize    = 64           // length of a signature in an explained call
	handleBytes      = 150          // approximate memory of a handle without its name
	pieceOverhead    = 100          // approximate memory of a sealed value in the cache without its text
)

// Field is a field of a connector's configuration: its description by the plugin, and its value from the operator.
type Field struct {
	abi.Field
	Sinks, Derived seal.Sinks
	// Matcher compares texts with the pattern of the description. It is nil if there is none.
	Matcher *expr.Matcher
	// Text is the value of a field of any kind except object. It is nil if the field is absent.
	Text *template.Template
	// Object is the value of a field of kind object. It is nil if the field is absent.
	Object *template.Object
	// Source is the value as the operator wrote it, for validate.
	Source any
	// OpenHost is set if a tenant chooses the host of a URL.
	OpenHost bool
}

func (f *Field) purposes() []string {
	if len(f.Purposes) == 0 {
		return []string{contract.PurposeJWT}
	}
	return f.Purposes
}

// SignsJWS reports whether the field is a key that signs JWS, and so nothing else.
func (f *Field) SignsJWS() bool { return slices.Contains(f.Purposes, contract.PurposeJWS) }

// KeyNames returns the names of the secrets that a key is made of, or its name in the store of keys.
func (f *Field) KeyNames() (names []string) {
	if f.Kind != abi.KindKey || f.Text == nil {
		return nil
	}
	if key := f.Text.Key(); key != nil {
		return []string{fmt.Sprintf("key %q", key.Name)}
	}
	for _, name := range f.Text.Names().Secrets {
		names = append(names, fmt.Sprintf("secret %q", name))
	}
	return names
}

// Challenge describes what the plugin learns from answers of the API. If there is none, or its condition does not hold for the connector,
// there are no Statuses and no Answers, and Keep is 0.
type Challenge struct {
	// InDescription reports whether the plugin's description has a challenge, and Applies whether it is for the connector.
	InDescription, Applies bool
	// Statuses are those of the API after which a call runs again.
	Statuses []int
	// Answers are the parts of answers that the description names.
	Answers []answer.Part
	// Keep is the time for which kept answers are available.
	Keep time.Duration
}

// Plan holds the data and functions that all calls of one connector share. It must not be changed once a call uses it.
type Plan struct {
	// Codings are the content codings of answers that are undone, beside those of package answers.
	Codings map[string]answers.Coding
	Fields  map[string]*Field
	// Names holds the names in all templates.
	Names template.Names
	// SecretSinks maps the name of a secret to the sinks of all fields that name it, and SecretDerived to their derived sinks.
	// A secret that only the connector's tls names is in neither.
	SecretSinks, SecretDerived map[string]seal.Sinks
	// States are the states of the plugin's description.
	States []State
	Turns  Turns
	// Answers are the parts of answers of exchanges that the plugin's description names.
	Answers   []answer.Part
	Challenge Challenge
	// Uses is the set of the groups of host functions that the plugin's description names.
	Uses      map[string]bool
	Grants    map[string]bool
	Anonymous bool

	// Owner is the name of the connector. Partition returns the partition of the cache for a call.
	Owner     string
	Partition func(*Inputs) [32]byte

	// Unlisted returns the first token among the names that may not go to the host of a URL, because the operator does not list that
	// host for it: user.token, or a call of identity. It returns "" if there is none.
	Unlisted func(*url.URL) string
	// CheckURL returns an error if a rendered field of kind url may not have that value.
	CheckURL func(url string) error
	// HostOf returns the host of the connector's list that stands for that of a URL, or "".
	HostOf func(*url.URL) string
	Tokens *tokens.Store
	Signer *signing.Signer
	// Client sends token requests. It must not follow redirects.
	Client *http.Client
	// Renew returns inputs with the tokens of identities for another exchange. It is nil if the templates name no identity.
	Renew func(context.Context, *Inputs) (*Inputs, *Failure)
	// UserAgent is the User-Agent of token requests, unless the guest sets one.
	UserAgent string
	// If not nil, ClientOf returns the client that replaces Client for the calls with these inputs.
	ClientOf func(context.Context, *Inputs) (*http.Client, *Failure)
	Clock    func() time.Time
	Random   io.Reader
	// KeySecret is the secret from which the keys of fields with Generate are derived.
	KeySecret [32]byte
	// Keys is the store of keys, or nil. AsksKeys is set if a field names a key of it.
	Keys     Keys
	AsksKeys bool
	// Offset is the time that the clocks of the API and of the token endpoint are ahead of Clock.
	Offset answer.Offset
	// TenantHosts is set if tenants choose hosts, which each have a clock of their own.
	TenantHosts bool
	// Log writes a log line of the guest.
	Log func(ctx context.Context, level contract.Level, text string)
	// Warn writes a warning of the host about a field. It writes the same one once for a connector.
	Warn func(ctx context.Context, field, text string)
	// GuestWarns writes a warning of the guest. It is like Warn, and has a limit of its own.
	GuestWarns func(ctx context.Context, text string)
	// Refused logs the refusal of a token endpoint, which is named by its host. It is called for the first refusal of a period.
	Refused func(ctx context.Context, endpoint, text string)
	Limits  Limits
	// ExchangeTime bounds one token request, and one request to the store of keys.
	ExchangeTime time.Duration

	// Events takes the exchanges and the uses of the store of keys. It may be nil.
	Events *event.Stream

	// Explains is set if all calls record their steps, for tests of plugins.
	Explains bool
	// If not nil, Revealed is called with each text that a guest reveals.
	Revealed func(text string)
	// RandomText, if not nil, supplies the result of Random in tests. "" falls back to Random.
	RandomText func(bytes int64) string
}

// ServerOffset returns the Offset for a tenant.
func (p *Plan) ServerOffset(tenant string) *answer.Offset {
	if p.TenantHosts {
		return p.Offset.TenantOffset(tenant)
	}
	return &p.Offset
}

// Subject has the fields of the user that the templates name.
type Subject struct {
	User     template.User
	TenantID string
	// TokenExpires is the time at which User.Token expires. If it is the zero time, the time is not known.
	TokenExpires time.Time
	// Grant is the name of the user's grant if the auth type has consent.
	Grant string
}

// Key returns a Subject that is equal for users with the same fields. It has a hash of the token: thousands may be kept.
func (s Subject) Key() Subject {
	if s.TokenExpires = (time.Time{}); s.User.Token != "" {
		sum := sha256.Sum256([]byte(s.User.Token))
		s.User.Token = string(sum[:])
	}
	return s
}

// Inputs holds the values for one request that the templates name. They are read before the guest runs. So a call sees
// each value in one state, and no guest occupies a sandbox while a secret store answers.
type Inputs struct {
	// Secrets holds the values of Plan.Names.Secrets, in the same order.
	Secrets []string
	// Discovered holds the values of Plan.Names.Discovered, in the same order.
	Discovered []string
	// Identities holds the tokens of Plan.Names.Identities, in the same order.
	Identities []string
	Variables  map[string]string
	Subject
	// Request is nil if there is no request.
	Request *http.Request
	// Code is set in a run of connect, and nil otherwise.
	Code *Code
	// Body returns a reader of the request's body. It is nil until the host keeps the body.
	Body func() (io.ReadCloser, error)
	// BodySize is the length of the kept body in bytes.
	BodySize int64
	// Number is the number of Counter, if the request has the turn of the call's partition, or 0.
	Number int64
	// Answer is the API's answer to an earlier attempt of the request, if the call runs because of it, and nil otherwise.
	Answer *APIAnswer
	// Earlier is the mutation of earlier elements of a list of authentications, or nil.
	Earlier *Mutation
	// MadeUp is set if the secrets are made up, so that no key can be read. An explained call does not need one then.
	MadeUp bool
	// Unanswered is set if an explained call is the first attempt of a request. Otherwise it is one after a made-up answer, if
	// the plugin's challenge has answers.
	Unanswered bool

	// keptAnswers is nil until the kept answers are first needed.
	keptAnswers *keptAnswers
	// partition is nil until it is first needed.
	partition *[32]byte
}

// secret returns the value of a secret, and reports whether the templates name it.
func (in *Inputs) secret(plan *Plan, name string) (string, bool) {
	i := slices.Index(plan.Names.Secrets, name)
	if i < 0 || i >= len(in.Secrets) {
		return "", false
	}
	return in.Secrets[i], true
}

// secrets returns the values of all secrets and identities, and the user's token if there is one.
func (in *Inputs) secrets() []string {
	all := in.Secrets
	if len(in.Identities) > 0 {
		all = slices.Concat(all, in.Identities)
	}
	if in.User.Token != "" {
		all = append(slices.Clip(all), in.User.Token)
	}
	return all
}

// Code is an authorization response, for a run of connect.
type Code struct {
	Code, Verifier, RedirectURI string
	// Nonce is the nonce of the authorization request.
	Nonce string
}

// APIAnswer is the part of an API's answer that the call of the next attempt gets.
type APIAnswer struct {
	Status int
	// found has the answers, not sealed yet.
	found map[string]string
	// repeats is set if a sealed one repeats a text of its request, so that none is kept.
	repeats bool
	// used are the cache entries that the call of the earlier attempt read.
	used []*tokencache.Handle
	// storedKeys are the keys of those that it has stored.
	storedKeys []tokencache.Key
	// RequestRead is set if that call, or one of another element of a list, has read the request.
	RequestRead bool
	// offset is the last result of ClockOffset in that call. It is nil if the call did not ask.
	offset *int64
}

// keptAnswers is the set of answers of an API that later calls get.
type keptAnswers struct {
	found map[string]string
	// count is the number of calls that got the set.
	count int64
}

// State is a state of a plugin's description.
type State struct {
	Name string
	// Seed is the field that has the state at first, or nil.
	Seed           *Field
	Sinks, Derived seal.Sinks
}

func (s *State) value(text string) seal.Value {
	return seal.Value{Text: text, Sinks: s.Sinks, Derived: s.Derived, Mask: "<" + s.Name + ">"}
}

// Turns are those of the grants that keep states.
type Turns struct {
	// Begin takes the turn of a grant. seed is nil without a configured state. If resend is not set, it does not take that of states that
	// may have been sent.
	Begin func(ctx context.Context, seed []byte, resend bool) (*lease.Turn, error)
	// Error returns the error that says whose grant is lost or uncertain, for one of a turn and the error of the exchange.
	Error func(ctx context.Context, err, cause error) error
	// NeverResend is set if states that may have been redeemed are lost.
	NeverResend bool
}

// Keys has the methods of host.Keys.
type Keys interface {
	Describe(ctx context.Context, key view.Key) (view.KeyInfo, error)
	Sign(ctx context.Context, key view.Key, algorithm string, data []byte) (signature []byte, version int, err error)
}

// The errors of Keys that a person has to fix, see host.ErrKeyNotFound. Any other one may pass.
var (
	ErrKeyNotFound = errors.New("the key is not found")
	ErrKeyRefused  = errors.New("the key may not be used")
)
