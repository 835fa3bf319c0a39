package expr

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Key names a key of a store of keys.
type Key struct {
	Name string
	// Version is the version of the key. 0 is the newest one.
	Version int
}

// validName matches the names of secrets and variables, and longer ones.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// ValidName reports whether a secret or a variable may have a name. Such a name has no slash and is neither . nor .., so
// that it can be part of a path.
func ValidName(name string) bool { return len(name) <= 128 && validName.MatchString(name) }

// literalName returns a literal argument. The error does not quote it, because it may be the secret itself.
func (b *builder) literalName(n *ast.CallNode) (name string, ok bool) {
	literal, ok := n.Arguments[0].(*ast.StringNode)
	switch {
	case !ok:
		b.fail(n.Arguments[0], "the name must be a literal text, in quotes")
	case !ValidName(literal.Value):
		b.fail(literal, "the name must be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit")
	default:
		return literal.Value, true
	}
	return "", false
}

// ownedName returns the name of a secret or a variable as in [Names].Secrets. The second argument may be one of ofWhom.
func (b *builder) ownedName(n *ast.CallNode, what string, ofWhom ...string) (name string, ok bool) {
	name, ok = b.literalName(n)
	if !ok || len(n.Arguments) == 1 {
		return name, ok
	}
	argument, _ := n.Arguments[1].(*ast.StringNode)
	if argument == nil || !slices.Contains(ofWhom, argument.Value) {
		b.fail(n.Arguments[1], "whose %s it is must be written '%s'", what, strings.Join(ofWhom, "' or '"))
		return "", false
	}
	o := owners[argument.Value]
	b.person(o.field)
	return o.directory + anyone + "/" + name, true
}

func (b *builder) secret(n *ast.CallNode) operand {
	name, ok := b.ownedName(n, "secret", "tenant", "user")
	if !ok {
		return operand{}
	}
	b.Secrets, b.Secret, b.Owned = append(b.Secrets, name), true, b.Owned || Owned(name)
	called := SecretCall(name)
	return b.lookup(n, called, func(r *Run) (string, error) {
		value, err := r.Values.Secret(name)
		if err == nil && strings.TrimSpace(value) == "" {
			panic(r.failure("%s: the secret is empty or blank", called))
		}
		return value, err
	})
}

// key compiles get_key, which has to be the whole expression, because such a key has no text.
func (b *builder) key(n *ast.CallNode) operand {
	if n != b.root {
		return b.fail(n, "get_key must stand alone: such a key stays in its store, and has no text")
	}
	name, ok := b.literalName(n)
	if !ok {
		return operand{}
	}
	key := &Key{Name: name}
	if len(n.Arguments) > 1 {
		version, literal := n.Arguments[1].(*ast.IntegerNode)
		if !literal || version.Value < 1 || version.Value > 1<<31-1 {
			return b.fail(n.Arguments[1], "the version must be a literal number from 1")
		}
		key.Version = version.Value
	}
	b.Key = key
	column := b.columnOf(n)
	return operand{Text, func(r *Run) any {
		r.column = column
		panic(r.failure("get_key('%s') has no text", name))
	}}
}

// variable compiles get_variable. If optional is true, a missing variable is empty text and not an error.
func (b *builder) variable(n *ast.CallNode, optional bool) operand {
	name, ok := b.ownedName(n, "variable", "tenant")
	if !ok {
		return operand{}
	}
	b.Variables = append(b.Variables, name)
	called := strings.Replace(SecretCall(name), "get_secret", "get_variable", 1)
	return b.lookup(n, called, func(r *Run) (string, error) {
		fullName, err := StoredSecret(name, r.Values.TenantID(), "")
		if err != nil {
			return "", err
		}
		value, ok := r.Values.Variable(fullName)
		if !ok && !optional {
			panic(r.failure("%s: there is no such variable: set %s (--var NAME=VALUE)", called, name))
		}
		return value, nil
	})
}

// lookup returns an operand whose value is a text from outside of the expression. call stands in front of an error of get.
func (b *builder) lookup(n ast.Node, call string, get func(*Run) (string, error)) operand {
	column := b.columnOf(n)
	return operand{Text, func(r *Run) any {
		r.enter(column)
		value, err := get(r)
		if err != nil {
			panic(&Error{Column: column, Message: call, Err: err})
		}
		r.bound(len(value), r.limits.Text)
		return value
	}}
}

// Discovery is a call of discover: the issuer identifier of an authorization server, and a member of its metadata (RFC 8414 section 2).
type Discovery struct{ Issuer, Member string }

// String returns the call.
func (d Discovery) String() string { return "discover('" + d.Issuer + "', '" + d.Member + "')" }

// Identity is a call of identity: a name of an identity of the process, and the audience that its token is for.
type Identity struct{ Name, Audience string }

// String returns the call.
func (i Identity) String() string { return "identity('" + i.Name + "', '" + i.Audience + "')" }

// maxAudience limits the length of an audience in bytes.
const maxAudience = 1 << 10

// identity compiles identity, which has to be the whole expression, so that no function makes anything else of the token. Its
// arguments are literal: the template alone chooses whom the token is for.
func (b *builder) identity(n *ast.CallNode) operand {
	if n != b.root {
		return b.fail(n, "identity must stand alone: its token goes to a token endpoint as it is")
	}
	name, ok := b.literalName(n)
	if !ok {
		return operand{}
	}
	audience, ok := n.Arguments[1].(*ast.StringNode)
	switch {
	case !ok:
		return b.fail(n.Arguments[1], "the audience must be a literal text, in quotes")
	case audience.Value == "" || len(audience.Value) > maxAudience || strings.Trim(audience.Value, audienceCharacters) != "":
		return b.fail(audience, "the audience must be 1 to 1024 ASCII characters without blanks, quotes and backslashes")
	}
	i := Identity{name, audience.Value}
	b.Identities, b.Secret = []Identity{i}, true
	return b.lookup(n, i.String(), func(r *Run) (string, error) { return r.Values.Identity(i) })
}

// audienceCharacters are those of URIs (RFC 3986 section 2), and what else names have.
const audienceCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&()*+,;=%{}|"

// inTemplatesOnly has the functions for templates alone, and what bodies do in place of them.
var inTemplatesOnly = map[string]string{
	"get_secret": "a secret in request or response would reach the caller; put it into auth, headers or query",
	"identity":   "its token goes to token endpoints only; put it into auth",
	"get_key":    "such a key signs, and has no text; name it in auth",
	"discover":   "it names where credentials go; put it into auth",
}

// discover compiles discover. Its arguments are literal, so that the template alone chooses where credentials go.
func (b *builder) discover(n *ast.CallNode) operand {
	var texts [2]string
	for i, what := range []string{"issuer", "member"} {
		literal, ok := n.Arguments[i].(*ast.StringNode)
		if !ok {
			return b.fail(n.Arguments[i], "the %s must be a literal text, in quotes", what)
		}
		texts[i] = literal.Value
	}
	d := Discovery{texts[0], texts[1]}
	if b.CheckDiscovery != nil {
		if argument, problem := b.CheckDiscovery(d); problem != "" {
			return b.fail(n.Arguments[argument], "%s", problem)
		}
	}
	b.Discovered = append(b.Discovered, d)
	return b.lookup(n, d.String(), func(r *Run) (string, error) { return r.Values.Discovered(d) })
}

// A secret may belong to a tenant or to a user. Then an expression names it tenants/*/NAME or users/*/NAME, and its name in a
// store has the id in place of the star.
const (
	tenants = "tenants/"
	users   = "users/"
	anyone  = "*"
)

// owner is a tenant or a user, as the second argument of get_secret.
type owner struct {
	// directory begins the names of its secrets, and field is the field of the user with its id, or "".
	directory, field string
	// missing and invalid are errors of [StoredSecret]. They do not quote the id, which is not for all who see an error.
	missing, invalid error
}

var owners = map[string]owner{
	"tenant": {tenants, "", errors.New("the request has no tenant"), errors.New("the id of the tenant " + noPart)},
	"user":   {users, "id", errors.New("the request has no user with an id"), errors.New("the id of the user " + noPart)},
}

const noPart = "cannot be part of a secret's name: it must be 1 to 128 lower-case letters, digits, '_' or '-', and begin with a letter or digit"

// ValidSecret reports whether a store may have a secret of a name: NAME, tenants/ID/NAME or users/ID/NAME. No part of such a
// name is . or .., so that it can be a path.
func ValidSecret(name string) bool {
	directory, rest, owned := strings.Cut(name, "/")
	if !owned {
		return ValidName(name)
	}
	id, last, _ := strings.Cut(rest, "/")
	return (directory+"/" == tenants || directory+"/" == users) && validID(id) && ValidName(last)
}

// validID reports whether an id can be part of a secret's name. It has no capitals, because many file systems and databases
// take Acme for acme, and so one tenant for another.
func validID(id string) bool {
	const first = "abcdefghijklmnopqrstuvwxyz0123456789"
	return 0 < len(id) && len(id) <= 128 && strings.IndexByte(first, id[0]) >= 0 && strings.Trim(id, first+"-_") == ""
}

// Owned reports whether a name in [Names].Secrets is one of a tenant or a user.
func Owned(name string) bool { return strings.Contains(name, anyone) }

// OfUser reports whether a name in [Names].Secrets is one of a user.
func OfUser(name string) bool { return strings.HasPrefix(name, users+anyone) }

// EnvName returns the environment variable of a secret: KEYWRIGHT_SECRET_ and the name in capitals, with - and . replaced by _.
func EnvName(name string) string {
	return "KEYWRIGHT_SECRET_" + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))
}

// StoredSecret returns the name under which stores have a secret of [Names].Secrets, for a tenant and a user with these ids. It
// returns an error if the id is missing or cannot be part of a name. It never changes an id, so no two ids have the same name.
func StoredSecret(name, tenantID, userID string) (string, error) {
	directory, last, owned := strings.Cut(name, anyone)
	if !owned {
		return name, nil
	}
	id, o := tenantID, owners["tenant"]
	if directory == users {
		id, o = userID, owners["user"]
	}
	switch {
	case id == "":
		return "", o.missing
	case !validID(id):
		return "", o.invalid
	}
	return directory + id + last, nil
}

// SecretCall returns the call of get_secret with a name of [Names].Secrets.
func SecretCall(name string) string {
	for argument, o := range owners {
		if last, ok := strings.CutPrefix(name, o.directory+anyone+"/"); ok {
			return "get_secret('" + last + "', '" + argument + "')"
		}
	}
	return "get_secret('" + name + "')"
}
