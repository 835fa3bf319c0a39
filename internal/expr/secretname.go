package expr

import (
	"errors"
	"strings"
)

// A secret may belong to a tenant or to a user. Then an expression names it tenants/*/NAME or users/*/NAME, and its name in a
// store has the id in place of the star.
const (
	tenants = "tenants/"
	users   = "users/"
	anyone  = "*"
)

// owner is a tenant or a user, as the second argument of get_secret.
type owner struct {
	// directory begins the names of its secrets.
	directory string
	// subject is the name in Expression.Subject that has the id.
	subject string
}

// owners has the second arguments of get_secret.
var owners = map[string]owner{"tenant": {tenants, "tenant_id"}, "user": {users, "user.id"}}

// Errors of [StoredSecret]. They do not quote the id, which is not for everybody who sees an error.
var (
	errNoTenant = errors.New("the request has no tenant")
	errNoUser   = errors.New("the request has no user with an id")
	errTenantID = errors.New("the id of the tenant " + noPart)
	errUserID   = errors.New("the id of the user " + noPart)
)

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
	for i := range len(id) {
		switch b := id[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', i > 0 && (b == '-' || b == '_'):
		default:
			return false
		}
	}
	return 0 < len(id) && len(id) <= 128
}

// Owned reports whether a name in [Expression].Secrets is one of a tenant or a user.
func Owned(name string) bool { return strings.Contains(name, anyone) }

// OfUser reports whether a name in [Expression].Secrets is one of a user.
func OfUser(name string) bool { return strings.HasPrefix(name, users+anyone) }

// EnvName returns the environment variable of a secret: KEYWRIGHT_SECRET_ and the name in capitals, with - and . replaced by _.
func EnvName(name string) string {
	return "KEYWRIGHT_SECRET_" + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))
}

// StoredSecret returns the name under which stores have a secret of [Expression].Secrets, for a tenant and a user with these
// ids. It returns an error if the id is missing or cannot be part of a name. It never changes an id, so no two ids have the same
// name.
func StoredSecret(name, tenantID, userID string) (string, error) {
	directory, last, owned := strings.Cut(name, anyone)
	if !owned {
		return name, nil
	}
	id, missing, invalid := tenantID, errNoTenant, errTenantID
	if directory == users {
		id, missing, invalid = userID, errNoUser, errUserID
	}
	switch {
	case id == "":
		return "", missing
	case !validID(id):
		return "", invalid
	}
	return directory + id + last, nil
}

// SecretCall returns the call of get_secret with a name of [Expression].Secrets.
func SecretCall(name string) string {
	for argument, o := range owners {
		if last, ok := strings.CutPrefix(name, o.directory+anyone+"/"); ok {
			return "get_secret('" + last + "', '" + argument + "')"
		}
	}
	return "get_secret('" + name + "')"
}
