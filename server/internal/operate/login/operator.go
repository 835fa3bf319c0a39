package login

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Right allows operators something.
type Right string

// The rights that a file of Config.TokensDir may have. A line tenant:ID beside them restricts People and Act to one tenant.
const (
	// Read is to read what connectors do, without the IDs of people.
	Read Right = "read"
	// Test is to test a connector, as any user.
	Test Right = "test"
	// Check is to check a file that may take the place of the one in use.
	Check Right = "check"
	// People is to read whose connections there are.
	People Right = "people"
	// Act is to end connections, to set and remove secrets of tenants, to make links for users, and to have the file read again.
	Act Right = "act"
)

var rights = []Right{Read, Test, Check, People, Act}

const tenantPrefix = "tenant:"

// An Operator is who sends a request to the operators' listener.
type Operator struct {
	// Name is the name of the token, or the subject of the session.
	Name string
	// Everything reports whether the operator has all rights. Otherwise Rights has them.
	Everything bool
	Rights     []Right
	// Tenant is the one to which People and Act are restricted, or "".
	Tenant string
	// Session reports whether the request has a session of a login, which POST /logout ends.
	Session bool
}

// Allows reports whether the operator has a right.
func (o *Operator) Allows(right Right) bool { return o.Everything || slices.Contains(o.Rights, right) }

// AllowsIn reports whether the operator has a right for a tenant.
func (o *Operator) AllowsIn(right Right, tenant string) bool {
	return o.Allows(right) && (o.Tenant == "" || o.Tenant == tenant)
}

// Sees reports whether the operator may see a tenant, and its users.
func (o *Operator) Sees(tenant string) bool { return o.AllowsIn(People, tenant) }

type operatorKey struct{}

// OperatorOf returns the operator of a request that has passed a Guard. Without a login, all who reach the listener are on this machine,
// and have all rights.
func OperatorOf(ctx context.Context) *Operator {
	if o, ok := ctx.Value(operatorKey{}).(*Operator); ok {
		return o
	}
	return &Operator{Name: "local", Everything: true}
}

// LoggedIn reports whether a request has passed a Guard.
func LoggedIn(ctx context.Context) bool { return ctx.Value(operatorKey{}) != nil }

// HasSession reports whether a request has a session of a login, which POST /logout ends.
func HasSession(r *http.Request) bool { return OperatorOf(r.Context()).Session }

// Require returns a handler that passes requests of operators with a right on to h.
func Require(right Right, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o := OperatorOf(r.Context()); !o.Allows(right) {
			http.Error(w, fmt.Sprintf("the token %s has not the right %s", o.Name, right), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

type namedToken struct {
	Operator
	token digest
}

const maxTokens = 100 // files

// readTokens reads a directory with a file for each token.
func readTokens(dir string) (all []namedToken, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || entry.IsDir() { // such as those of a mounted volume of Kubernetes
			continue
		}
		if len(all) == maxTokens {
			return nil, fmt.Errorf("%s has more than %d tokens", dir, maxTokens)
		}
		t, err := readNamed(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// readNamed reads the file of a token.
func readNamed(path string) (t namedToken, err error) {
	const othersWrite = 0o022 // the mode bits of those who could give themselves rights
	content, err := readFile(path, othersWrite, "%s may be written by others (its mode is %04o): chmod go-w it")
	if err != nil {
		return t, err
	}
	t.Name = filepath.Base(path)
	first, rest, _ := strings.Cut(content, "\n")
	sum, found := strings.CutPrefix(strings.TrimSpace(first), "sha256:")
	hash, err := hex.DecodeString(sum)
	if err != nil || !found || len(hash) != len(t.token) {
		return t, fmt.Errorf("%s: the first line is not sha256: and the hash of a token, such as that of `printf %%s TOKEN | sha256sum`; the token itself does not belong there", path)
	}
	t.token = digest(hash)
	for line := range strings.FieldsSeq(rest) {
		tenant, ok := strings.CutPrefix(line, tenantPrefix)
		switch {
		case ok && tenant != "":
			t.Tenant = tenant
		case slices.Contains(rights, Right(line)):
			t.Rights = append(t.Rights, Right(line))
		default:
			return t, fmt.Errorf("%s: %q is no right: there are read, test, check, people, act and tenant:ID", path, line)
		}
	}
	if t.Tenant != "" && t.Allows(Test) {
		return t, fmt.Errorf("%s: a test may be as a user of any tenant: take test or %s%s away", path, tenantPrefix, t.Tenant)
	}
	if t.Rights == nil {
		return t, fmt.Errorf("%s: the token has no right: write read, test, check, people or act on a line of its own", path)
	}
	return t, nil
}
