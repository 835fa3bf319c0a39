// Package hostfn is what a guest can ask of the host: the host functions of one call, a file for each concern.
//
// A [Call] implements abi.Env. Its methods succeed or end the call: they keep the [Failure] and panic, and whoever runs
// the guest turns that into an error. Nothing here knows WebAssembly, so that the same functions serve a guest in the
// sandbox and one that runs natively in a test.
package hostfn

import (
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Stages of a request at which a call can fail; the host's errors have them.
const (
	StageConfig   = "config"   // the configuration, or a rendered value of it
	StageTemplate = "template" // a template could not be rendered: a secret, variable or user field is missing
	StagePlugin   = "plugin"   // the guest failed, broke the contract or a limit
	StageToken    = "token"    // the token endpoint
	StageSign     = "sign"     // a key or a signature
	StageMutation = "mutation" // what the guest wants changed cannot be applied
	StageOrigin   = "origin"   // the request is for an origin that is not the connector's
	StageBody     = "body"     // the request's body cannot be read, or not be kept
)

// Failure is why a call ended.
type Failure struct {
	Stage string
	Err   error
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// Limits bound a call: those of package host that have the same names.
type Limits struct {
	TokenRequests, TokenBytes, LogLines, CacheBytes, Mutations int
}

// Cache holds tokens of all connectors of a host.
type Cache = tokencache.Cache[[]seal.Piece]

// Lease is the right to fill one entry of the cache.
type Lease = tokencache.Lease[[]seal.Piece]

// Field is a field of a connector's configuration: what the plugin says of it, and what the operator wrote.
type Field struct {
	abi.Field
	Sinks  seal.Sinks
	Text   *template.Template // of every kind but object; nil when absent
	Object *template.Object   // of kind object; nil when absent
	Source any                // as written, for validate
}

// Plan holds what all calls of one connector share. It does not change once a call has it.
type Plan struct {
	Fields      map[string]*Field
	Names       template.Names        // of all templates
	SecretSinks map[string]seal.Sinks // of each secret: those of the fields that name it
	Uses        map[string]bool       // groups of host functions
	Grants      map[string]bool
	Anonymous   bool

	Partition func(*Inputs) [32]byte // of the cache

	CheckURL func(url string) error // what must hold of a rendered field of kind url
	Cache    *Cache
	Signer   *signing.Signer
	Client   *http.Client // for token requests; follows no redirects
	Clock    func() time.Time
	Random   io.Reader
	Log      func(ctx context.Context, level abi.Level, text string) // a line of the guest or about it
	Warn     func(ctx context.Context, text string)                  // of the host: the same text once for a connector
	// GuestWarns is Warn for the guest's own warnings, which are bounded apart from the host's.
	GuestWarns func(ctx context.Context, text string)
	Refused    func(ctx context.Context, text string) // a token endpoint refused, the first time in a period
	Limits     Limits
	// ExchangeTime bounds one token request.
	ExchangeTime time.Duration

	Revealed func(text string) // is called with each text that a guest reveals, unless it is nil
}

// Inputs holds the values of one request: the values of all that the templates name, read before the guest runs, so that a
// call sees each in one state, and no guest occupies a sandbox while a secrets store answers.
type Inputs struct {
	Secrets   []string // the values of Plan.Names.Secrets
	Variables map[string]string
	User      template.User
	TenantID  string
	Request   *http.Request // nil where there is none
	// BodySHA256 is the digest of the request's body, in hex, once the host keeps that; empty before.
	BodySHA256 string

	partition *[32]byte // once it has been asked for
}

// secret returns the value of a secret that the templates name.
func (in *Inputs) secret(plan *Plan, name string) (string, bool) {
	i := slices.Index(plan.Names.Secrets, name)
	if i < 0 || i >= len(in.Secrets) {
		return "", false
	}
	return in.Secrets[i], true
}
