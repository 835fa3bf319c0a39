// Package inputs reads what the templates of a connector name, for one call: secrets, endpoints of authorization servers, and the user.
package inputs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/expr"
)

// Reader reads the inputs of a connector's calls. It is not changed once it is used.
type Reader struct {
	Plan    *connect.Plan
	Secrets Secrets
	// Identity returns the token of an identity. An error that may pass is marked with [hostfn.Passing].
	Identity  func(ctx context.Context, identity template.Identity, exchange bool) (string, error)
	Variables map[string]string
	// OwnedVariables is asked for the variables of a tenant that Variables does not have. It may be nil.
	OwnedVariables Secrets
	Events         *event.Stream

	// Documents are the metadata of issuers. Asker has what reads them, but for the client.
	Documents *discovery.Cache
	Asker     discovery.Asker
	// Egress is a text that is the same for all connectors that reach issuers in the same way. It is "" for the egress of the host.
	Egress string
	// TLS returns the texts of the TLS for a call with these inputs. It is used only if Plan.ClientOf is not nil.
	TLS func(context.Context, *hostfn.Inputs) ([]string, *hostfn.Failure)
}

// Inputs returns the inputs of a call: the values that the connector's templates name, and the request, or nil. values are those of
// Read, or of ReadSecrets for a call that needs no endpoint.
func (r *Reader) Inputs(values []string, s hostfn.Subject, request *http.Request) *hostfn.Inputs {
	all := slices.Clone(values) // another variable, so that values stays on the stack of each request
	secrets := len(r.Plan.Names.Secrets)
	discovered := min(secrets+len(r.Plan.Names.Discovered), len(all))
	identities := min(discovered+len(r.Plan.Names.Identities), len(all))
	return &hostfn.Inputs{
		Secrets: all[:secrets:secrets], Discovered: all[secrets:discovered:discovered], Identities: all[discovered:identities:identities],
		Variables: WithOwned(r.Variables, r.Plan.Names.Variables, all[identities:], s.TenantID), Subject: s, Request: request,
	}
}

// Subject returns the fields of the context's user that the templates name.
func (r *Reader) Subject(ctx context.Context) (s hostfn.Subject) {
	if !r.Plan.Personal() {
		return hostfn.Subject{}
	}
	u, _ := UserFrom(ctx)
	if r.Plan.Names.Tenant {
		s.TenantID = u.TenantID
	}
	for _, name := range r.Plan.Names.User {
		switch name {
		case "id":
			s.User.ID = u.ID
		case "email":
			s.User.Email = u.Email
		case "username":
			s.User.Username = u.Username
		case "first_name":
			s.User.FirstName = u.FirstName
		case "last_name":
			s.User.LastName = u.LastName
		case "token":
			if u.TokenExpires.IsZero() || r.Plan.Clock().Before(u.TokenExpires) {
				s.User.Token, s.TokenExpires = u.Token, u.TokenExpires
			}
		}
	}
	return s
}

// ReadSecrets appends the value of each secret that the connector's templates name to values.
func (r *Reader) ReadSecrets(ctx context.Context, values []string) ([]string, *hostfn.Failure) {
	for _, name := range r.Plan.Names.Secrets {
		value, err := ReadSecret(ctx, r.Secrets, &r.Plan.Names, name)
		if err != nil {
			return nil, &hostfn.Failure{Stage: hostfn.StageTemplate, Err: hostfn.FieldErrorf(r.Plan.SecretFields[name], "%w", err)}
		}
		values = append(values, value)
	}
	return values, nil
}

// Read appends the value of each secret, of each endpoint that the connector's templates discover, of each identity, and of each variable of
// the tenant, to values. It takes no longer for the endpoints than an exchange. It adds to stats.
func (r *Reader) Read(ctx context.Context, s *hostfn.Subject, values []string, stats *event.Attempt) ([]string, *hostfn.Failure) {
	values, failure := r.ReadSecrets(ctx, values)
	if failure == nil && len(r.Plan.Names.Discovered) > 0 {
		values, failure = r.discover(ctx, s, values, stats)
	}
	if failure == nil && len(r.Plan.Names.Identities) > 0 {
		values, failure = r.readIdentities(ctx, values, false)
	}
	if failure != nil {
		return values, failure
	}
	owned, err := ReadOwned(ctx, r.Variables, r.OwnedVariables, r.Plan.Names.Variables, s.TenantID)
	if err != nil {
		return nil, &hostfn.Failure{Stage: hostfn.StageTemplate, Err: err}
	}
	return append(values, owned...), nil
}

// ReadOwned returns the variables of a tenant among names, with an equals sign before each, or "" for one that neither all nor store has.
// store may be nil.
func ReadOwned(ctx context.Context, all map[string]string, store Secrets, names []string, tenantID string) (values []string, err error) {
	for _, name := range names {
		if store == nil || !expr.Owned(name) {
			continue
		}
		value, ok, err := ownedVariable(ctx, all, store, name, tenantID)
		switch {
		case err != nil:
			return nil, err
		case ok:
			value = "=" + value
		}
		values = append(values, value)
	}
	return values, nil
}

// WithOwned returns all with the values that ReadOwned has returned.
func WithOwned(all map[string]string, names, values []string, tenantID string) map[string]string {
	if len(values) == 0 {
		return all
	}
	own := make(map[string]string, len(all)+len(values))
	maps.Copy(own, all)
	for _, name := range names {
		if !expr.Owned(name) {
			continue
		}
		if value, ok := strings.CutPrefix(values[0], "="); ok {
			fullName, _ := expr.StoredSecret(name, tenantID, "") // ReadOwned has used it
			own[fullName] = value
		}
		values = values[1:]
	}
	return own
}

// ownedVariable returns a variable of a tenant that all has or store. ok reports whether there is one.
func ownedVariable(ctx context.Context, all map[string]string, store Secrets, name, tenantID string) (value string, ok bool, err error) {
	fullName, err := expr.StoredSecret(name, tenantID, "")
	if err != nil {
		return "", false, nil //nolint:nilerr // its template says what is wrong with the tenant
	}
	if value, ok = all[fullName]; ok {
		return value, ok, nil
	}
	switch value, err = store.Secret(ctx, fullName); {
	case errors.Is(err, ErrSecretNotFound), errors.Is(err, ErrOwnedRemoved):
		return "", false, nil
	case err != nil:
		return "", false, hostfn.Passing(fmt.Errorf("variable %q: %w", name, err))
	}
	return value, true, nil
}

// readIdentities appends the token of each identity that the templates name to values. If exchange is set, they are about to be sent.
func (r *Reader) readIdentities(ctx context.Context, values []string, exchange bool) ([]string, *hostfn.Failure) {
	for _, identity := range r.Plan.Names.Identities {
		token, err := r.Identity(ctx, identity, exchange)
		if err == nil && token == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			path := r.Plan.SecretFields[identity.String()]
			return nil, &hostfn.Failure{Stage: hostfn.StageIdentity, Err: hostfn.FieldErrorf(path, "%s: %w", identity, err)}
		}
		values = append(values, token)
	}
	return values, nil
}

// ForExchange returns in with the tokens of its identities as they are to be sent now. Each must be of the subject that it had when in was
// read, since what the exchange brings is kept for that one.
func (r *Reader) ForExchange(ctx context.Context, in *hostfn.Inputs) (*hostfn.Inputs, *hostfn.Failure) {
	if len(r.Plan.Names.Identities) == 0 {
		return in, nil
	}
	tokens, failure := r.readIdentities(ctx, nil, true)
	if failure != nil {
		return nil, failure
	}
	for i, identity := range r.Plan.Names.Identities {
		if connect.Subject(tokens[i]) != connect.Subject(in.Identities[i]) {
			err := hostfn.Passing(fmt.Errorf("%s has another subject than a moment ago, so that nothing was sent", identity))
			return nil, &hostfn.Failure{Stage: hostfn.StageIdentity, Err: err}
		}
	}
	renewed := *in
	renewed.Identities = tokens
	return &renewed, nil
}

// ReadAll returns the inputs of a call with what its templates name, and with a request, or nil. It adds to stats.
func (r *Reader) ReadAll(ctx context.Context, request *http.Request, stats *event.Attempt) (*hostfn.Inputs, *hostfn.Failure) {
	s := r.Subject(ctx)
	values, failure := r.Read(ctx, &s, nil, stats)
	if failure != nil {
		return nil, failure
	}
	return r.Inputs(values, s, request), nil
}

// discover appends to values, which are those of the secrets, the value of each call of discover in the connector's templates.
func (r *Reader) discover(ctx context.Context, s *hostfn.Subject, values []string, stats *event.Attempt) ([]string, *hostfn.Failure) {
	var in *hostfn.Inputs
	if r.Plan.ClientOf != nil {
		in = r.Inputs(values, *s, nil)
	}
	trust, failure := r.trust(ctx, in)
	if failure != nil {
		return nil, failure
	}
	bounded := false
	for _, d := range r.Plan.Names.Discovered {
		key := discovery.Key{Issuer: d.Issuer, Trust: trust}
		endpoint, ok := r.Documents.Known(key, d.Member)
		if !ok {
			if !bounded { // most calls know all, and need no timer
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, r.Plan.ExchangeTime)
				defer cancel()
				bounded = true
			}
			if endpoint, failure = r.find(ctx, key, d.Member, in, stats); failure != nil {
				return nil, failure
			}
		}
		values = append(values, endpoint)
	}
	return values, nil
}

// trust returns a digest of what the connector trusts and presents to issuers. in is nil unless it has TLS for its exchanges.
func (r *Reader) trust(ctx context.Context, in *hostfn.Inputs) (sum [32]byte, failure *hostfn.Failure) {
	if in == nil && r.Egress == "" {
		return sum, nil
	}
	var d connect.Digest
	if in != nil {
		texts, failure := r.TLS(ctx, in)
		if failure != nil {
			return sum, failure
		}
		d.Add(texts...)
	}
	if r.Egress != "" {
		d.Add(r.Plan.Owner, r.Egress)
	}
	return d.Sum(), nil
}

// AuthorizationServer returns the issuer in whose metadata the connector finds its authorization endpoint, and reports whether that
// server promises iss in its answers (RFC 9207 section 3). The issuer is "" if there is none, or more than one.
func (r *Reader) AuthorizationServer(ctx context.Context, in *hostfn.Inputs) (issuer string, promised bool, failure *hostfn.Failure) {
	for _, d := range r.Plan.Names.Discovered {
		switch {
		case d.Member != "authorization_endpoint" || d.Issuer == issuer:
		case issuer != "":
			return "", false, nil
		default:
			issuer = d.Issuer
		}
	}
	if issuer == "" {
		return "", false, nil
	}
	if r.Plan.ClientOf == nil {
		in = nil
	}
	trust, failure := r.trust(ctx, in)
	if failure != nil {
		return "", false, failure
	}
	value, failure := r.find(ctx, discovery.Key{Issuer: issuer, Trust: trust}, discovery.IssParameter, in, &event.Attempt{})
	return issuer, value == "true", failure
}

// find returns an endpoint from the metadata of an issuer, which it may read with the connector's TLS. It adds to stats.
func (r *Reader) find(ctx context.Context, key discovery.Key, member string, in *hostfn.Inputs, stats *event.Attempt) (string, *hostfn.Failure) {
	asker := r.Asker
	asker.Client = r.Plan.Client
	if r.Plan.ClientOf != nil {
		var failure *hostfn.Failure
		if asker.Client, failure = r.Plan.ClientOf(ctx, in); failure != nil {
			return "", failure
		}
	}
	begin := event.Span{Name: event.Discover}
	if issuer, err := url.Parse(key.Issuer); err == nil {
		begin.Scheme, begin.Host = issuer.Scheme, issuer.Host
	}
	started := false // a local: capturing stats would move it to the heap on every request
	asker.Go = func(task func()) error {
		err := r.Asker.Go(task)
		started = err == nil
		return err
	}
	ctx, span := r.Events.Start(ctx, begin)
	endpoint, err := r.Documents.Find(ctx, key, member, &asker)
	if started {
		stats.Discoveries++
	}
	if err != nil {
		failure := &hostfn.Failure{Stage: hostfn.StageToken, Err: err}
		span.End(event.End{Err: failure})
		return "", failure
	}
	span.End(event.End{})
	return endpoint, nil
}

// User is the user for whom a request is made, see host.User.
type User struct {
	ID, Email, Username, FirstName, LastName, TenantID string
	Token                                              string    `json:"-"`
	TokenExpires                                       time.Time `json:"-"`
}

type userKey struct{}

// WithUser returns a context whose requests are made for the user.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user of a context, and whether it has one.
func UserFrom(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// Secrets is a store of secrets, see host.Secrets.
type Secrets interface {
	Secret(ctx context.Context, name string) (string, error)
}

// ErrSecretNotFound is the error of a store for a name without a secret.
var ErrSecretNotFound = errors.New("the secret is not found")

// ErrOwnedRemoved is the error for a text that was removed, see host.ErrOwnedRemoved.
var ErrOwnedRemoved = errors.New("it was removed, and has to be given again")

// OfTemplate returns the inputs for a text of an embedder, for the user of the context, without tokens of identities.
func OfTemplate(ctx context.Context, names *template.Names, store, ownedVariables Secrets, variables map[string]string) (*hostfn.Inputs, error) {
	u, _ := UserFrom(ctx)
	user := template.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token}
	in := &hostfn.Inputs{Subject: hostfn.Subject{User: user, TenantID: u.TenantID}}
	owned, err := ReadOwned(ctx, variables, ownedVariables, names.Variables, u.TenantID)
	if err != nil {
		return nil, err
	}
	in.Variables = WithOwned(variables, names.Variables, owned, u.TenantID)
	for _, name := range names.Secrets {
		value, err := ReadSecret(ctx, store, names, name)
		if err != nil {
			return nil, err
		}
		in.Secrets = append(in.Secrets, value)
	}
	return in, nil
}

// ReadSecret returns the value of a secret of names, for the user of the context. A blank value is an error. An error of a store
// other than ErrSecretNotFound is marked as passing, see [hostfn.Passing].
func ReadSecret(ctx context.Context, store Secrets, names *template.Names, name string) (string, error) {
	if names.Owned && expr.Owned(name) {
		return readOwned(ctx, store, name)
	}
	return readStored(ctx, store, name, name)
}

// readOwned is like ReadSecret, for a secret of a tenant or a user. Its errors do not have the id of either.
func readOwned(ctx context.Context, store Secrets, name string) (string, error) {
	u, _ := UserFrom(ctx)
	fullName, err := expr.StoredSecret(name, u.TenantID, u.ID)
	if err != nil {
		return "", fmt.Errorf("secret %q: %w", name, err)
	}
	value, err := readStored(ctx, store, fullName, name)
	if err != nil {
		return "", hostfn.Reworded(err, fullName[:strings.LastIndexByte(fullName, '/')], name[:strings.LastIndexByte(name, '/')])
	}
	return value, nil
}

// readStored returns the value that a store has under fullName. Its errors begin with name.
func readStored(ctx context.Context, store Secrets, fullName, name string) (string, error) {
	value, err := store.Secret(ctx, fullName)
	switch {
	case err == nil && value != "" && '!' <= value[0] && value[0] <= '~': // most are like that
		return value, nil
	case err == nil && strings.TrimSpace(value) == "":
		err = errors.New("it is empty")
	case err == nil:
		return value, nil
	case !errors.Is(err, ErrSecretNotFound) && !errors.Is(err, ErrOwnedRemoved):
		err = hostfn.Passing(err)
	}
	return "", fmt.Errorf("secret %q: %w", name, err)
}
