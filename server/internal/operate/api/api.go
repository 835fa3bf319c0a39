// Package api is the API of operators at /api/v1: what the console shows, as JSON, and acts, which are recorded before they are done.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/operate/tenants"
	"github.com/keywright/keywright/server/statedb"
)

// Config configures [New]. Its functions are called concurrently.
type Config struct {
	Version string
	Clock   func() time.Time
	// View returns the figures of all nodes, and a note if they are of this process alone.
	View func(ctx context.Context) (view *activity.View, note string)
	// Find returns the failure with a request id, or nil.
	Find          func(ctx context.Context, id string) (*activity.Failure, error)
	Set           func() *connectors.Set
	Configuration func() Configuration
	Connections   *connections.Connections
	Tenants       *tenants.Tenants
	Acts          *acts.Log
	// Check checks a file that may take the place of the one in use, see [CheckFile].
	Check func(ctx context.Context, file []byte) (CheckResult, error)
	// Reload has the file read again. Its error says why the file is refused.
	Reload func(ctx context.Context) error
	// Test is the handler of POST /connectors/{permalink}/test.
	Test http.Handler
	// Link returns the address at which a user connects accounts, for [LinkTime]. It is nil if there are no such links.
	Link func(ctx context.Context, r LinkRequest) (url string, err error)
}

// Prefix is the beginning of the paths of all operations. scheme is the name of the way in which requests authenticate.
const Prefix, scheme = "/api/v1", "token"

type server struct {
	Config
	mux     *http.ServeMux
	api     huma.API
	repeats repeats
	// checking lets one check run at a time, because it takes much memory.
	checking sync.Mutex
}

// New returns the handler of the API, for requests that have passed a Guard of a login, if there is one.
func New(c Config) http.Handler {
	s := &server{Config: c, mux: http.NewServeMux(), repeats: newRepeats()}
	schemas := huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		name := huma.DefaultSchemaNamer(t, hint)
		if t.Kind() == reflect.Struct && path.Base(t.PkgPath()) == "difference" {
			name = "Difference" + name // a connector and a member
		}
		return name
	})
	s.api = humago.NewWithPrefix(s.mux, Prefix, huma.Config{
		OpenAPI: &huma.OpenAPI{
			Info: &huma.Info{
				Title: "Keywright's admin API", Version: cmp.Or(c.Version, "0"), License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
				Description: "What a gateway does, and acts of its operators. The scopes of an operation are the rights that a token needs.",
			},
			Servers: []*huma.Server{{URL: Prefix}},
			Components: &huma.Components{
				Schemas: schemas, SecuritySchemes: map[string]*huma.SecurityScheme{scheme: {Type: "http", Scheme: "bearer"}},
				Responses: map[string]*huma.Response{"Problem": {Description: "RFC 9457", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/ErrorModel"}}}}},
			},
		},
		Formats: huma.DefaultFormats, DefaultFormat: "application/json", RejectUnknownQueryParameters: true, Transformers: []huma.Transformer{plain},
	})
	s.routes()
	for _, schema := range schemas.Map() {
		for _, property := range schema.Properties {
			property.Nullable = property.Nullable && property.Type != huma.TypeArray // no list is null
		}
	}
	document, _ := json.Marshal(s.api.OpenAPI()) // it has no values that cannot be written
	s.mux.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document) // the operator is gone
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.write(w, http.StatusNotFound, "there is no such operation: "+Prefix+"/openapi.json has all of them")
	})
	return s
}

// routes has all operations with the rights that they need.
func (s *server) routes() {
	add(s, "GET /nodes", "List the nodes of the gateway", s.nodes, login.Read)
	add(s, "GET /connectors", "List connectors with their states", s.connectors, login.Read)
	add(s, "GET /connectors/{permalink}", "Get a connector with the causes of its failures", s.connector, login.Read)
	add(s, "GET /failures", "List failures by their causes, the newest first", s.failures, login.Read)
	add(s, "GET /requests/{id}", "Get a request that failed, by its request id", s.request, login.Read)
	add(s, "GET /configuration", "Get which file is in use, and what waits", s.configuration, login.Read)
	add(s, "GET /acts", "List who did what, the newest first", s.acts, login.Read)
	add(s, "GET /connections", "List the connections of users", s.connections, login.People)
	add(s, "POST /configuration/check", "Check a file against the one in use, without an effect", s.check, login.Check)
	add(s, "POST /configuration/reload", "Have the file read again", s.reload, login.Act)
	s.addTest("POST /connectors/{permalink}/test", "Test a connector, as any user", login.Test)
	add(s, "DELETE /connections/{id}", "End a connection", s.endConnection, login.Act)
	add(s, "POST /connections/end", "End all connections of a connector, a tenant or a user", s.endConnections, login.People, login.Act)
	add(s, "GET /tenants/{tenant}/texts", "List the secrets and variables that connectors ask of a tenant", s.texts, login.People)
	for _, kind := range []string{tenants.Secret, tenants.Variable} {
		add(s, "PUT /tenants/{tenant}/"+kind+"s/{name}", "Set a "+kind+" of a tenant, if it works", s.setText(kind), login.Act)
		add(s, "DELETE /tenants/{tenant}/"+kind+"s/{name}", "Remove a "+kind+" of a tenant", s.removeText(kind), login.Act)
	}
	add(s, "POST /connect-links", "Make a link at which a user connects accounts", s.link, login.Act)
}

type answer[T any] struct{ Body T }

func add[I, O any](s *server, route, summary string, do func(context.Context, *I) (O, error), rights ...login.Right) {
	huma.Register(s.api, s.operation(route, summary, rights), func(ctx context.Context, in *I) (*answer[O], error) {
		body, err := do(ctx, in)
		return &answer[O]{body}, problem(err)
	})
}

// operation describes an operation.
func (s *server) operation(route, summary string, rights []login.Right) huma.Operation {
	method, route, _ := strings.Cut(route, " ")
	needed := make([]string, len(rights))
	for i, right := range rights {
		needed[i] = string(right)
	}
	failure := &huma.Response{Ref: "#/components/responses/Problem"}
	o := huma.Operation{
		OperationID: strings.NewReplacer("/", "-", "{", "", "}", "").Replace(strings.ToLower(method) + route), Method: method, Path: route, Summary: summary, MaxBodyBytes: maxFile,
		Tags: []string{strings.Split(route, "/")[1]}, Responses: map[string]*huma.Response{"4XX": failure, "5XX": failure}, Security: []map[string][]string{{scheme: needed}},
		Middlewares: huma.Middlewares{s.allow(rights), tag}, DefaultStatus: http.StatusOK,
	}
	if route == "/connect-links" {
		o.DefaultStatus = http.StatusCreated
	}
	if method != http.MethodGet {
		o.Middlewares[1] = s.once
		o.Parameters = []*huma.Param{{Name: idempotencyKey, In: "header", Description: "A request with the same key is done once, within a day.", Schema: &huma.Schema{Type: "string"}}}
	}
	return o
}

// allow passes on the requests of operators with all of rights.
func (s *server) allow(rights []login.Right) func(huma.Context, func(huma.Context)) {
	return func(c huma.Context, next func(huma.Context)) {
		o := login.OperatorOf(c.Context())
		for _, right := range rights {
			if !o.Allows(right) {
				_ = huma.WriteErr(s.api, c, http.StatusForbidden, fmt.Sprintf("the token %s has not the right %s: add a line with it to its file in --admin-tokens", o.Name, right))
				return
			}
		}
		next(c)
	}
}

// actKey is the key of the [acts.Act] of a request, without a verb.
type actKey struct{}

// ServeHTTP answers a request. Cookies do not count, so that no page of another site can have a browser do something here.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if login.HasSession(r) || login.LoggedIn(r.Context()) && r.Header.Get("Authorization") == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.write(w, http.StatusUnauthorized, "the API takes a token in the header Authorization alone: send Authorization: Bearer TOKEN")
		return
	}
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), actKey{}, acts.FromRequest(r, "", ""))))
}

func (s *server) write(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = s.api.Marshal(w, "application/json", huma.NewError(status, text)) // the operator is gone
}

func refuse(status int, format string, args ...any) error {
	return huma.NewError(status, fmt.Sprintf(format, args...))
}

// problem returns an error for an operator.
func problem(err error) error {
	switch {
	case errors.Is(err, acts.ErrUnrecorded):
		return refuse(http.StatusServiceUnavailable, "%v", acts.ErrUnrecorded)
	case errors.Is(err, acts.ErrForbidden):
		return refuse(http.StatusForbidden, "%v", err)
	case errors.Is(err, records.ErrCursor):
		return refuse(http.StatusBadRequest, "cursor: %v", err)
	case errors.Is(err, statedb.ErrUnreachable), errors.Is(err, state.ErrUnavailable):
		return refuse(http.StatusServiceUnavailable, "the store of state does not answer: send the request again later")
	}
	return err
}

// plain leaves what is wrong itself out of an error, which may be a secret.
func plain(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok || len(e.Errors) == 0 {
		return v, nil
	}
	var texts []string
	for _, detail := range e.Errors {
		place, text := detail.Location, detail.Message
		if text == validation.MsgUnexpectedProperty {
			place, text = "body", "has a member that there is not"
		} else if place == "body" && !strings.HasPrefix(text, "expected ") {
			text = "is not JSON"
		}
		texts = append(texts, host.Printable(place)+": "+text)
	}
	e.Detail, e.Errors = strings.Join(texts, "; "), nil
	return e, nil
}

// act does an act of the operator once it has been recorded.
func (s *server) act(ctx context.Context, what, target string, do func() error) error {
	a, _ := ctx.Value(actKey{}).(acts.Act)
	a.Act, a.Target = what, host.Printable(target)
	err := s.Acts.Do(ctx, a, do)
	if err == nil || errors.Is(err, host.ErrNotRevoked) || errors.Is(err, acts.ErrUnrecorded) || errors.As(problem(err), new(huma.StatusError)) {
		return err // add makes a problem of it
	}
	return refuse(http.StatusUnprocessableEntity, "%s", host.Printable(err.Error()))
}
