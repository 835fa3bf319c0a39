package connectors

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// defaultRemember is the default of the member remember: the time for which responses of Vault are cached. A rotated secret
// takes effect after this time at the latest.
const defaultRemember = 5 * time.Second

// maxStores limits the stores of a file, because each may hold a file of certificates in memory.
const maxStores = 32

// stores returns the stores of the member secrets, in the order in which they are asked. It returns nil if the file does not
// have the member. It sets d.keys.
func (d *definer) stores() (all []host.Secrets) {
	for i, n := range d.file.Secrets {
		if i == maxStores {
			d.at(n.Place, "secrets", "has more than %d stores", maxStores)
			break
		}
		path := fmt.Sprintf("secrets[%d]", i)
		if !d.is(n, object, path, "secrets[]") {
			continue
		}
		if store := d.store(n, path); store != nil {
			all = append(all, store)
		}
	}
	return all
}

// storeType holds the member that all stores have.
type storeType struct {
	Type string `file:",required"`
}

func (d *definer) store(n *node, path string) host.Secrets {
	kind, _ := stringOf(n.get("type"))
	switch kind {
	case "env":
		d.decode(n, path, &storeType{})
		d.environment = true
		return host.EnvSecrets()
	case "dir":
		var c struct {
			storeType
			Path string `file:",required,path"`
		}
		d.decode(n, path, &c)
		return secretstore.Dir(c.Path, time.Now)
	case "age":
		var c struct {
			storeType
			File     string `file:",required,path"`
			Identity string `file:",required,path"`
		}
		d.decode(n, path, &c)
		return secretstore.Age(c.File, c.Identity, time.Now)
	case "vault":
		return d.vault(n, path)
	}
	d.otherType(n, path, "env", "dir", "age", "vault")
	return nil
}

// otherType reports that the type of a store is missing, or is none of types.
func (d *definer) otherType(n *node, path string, types ...string) {
	var c storeType
	if d.members(n, path, reflect.ValueOf(&c).Elem()); c.Type != "" {
		d.at(n.get("type").value.Place, path+".type", "there is no store of type %q%s", c.Type, problem.DidYouMean(c.Type, types))
	}
}

func (d *definer) vault(n *node, path string) host.Secrets {
	var c struct {
		storeType
		secretstore.VaultConfig
		Remember time.Duration
	}
	d.decode(n, path, &c)
	c.AllowHTTP = d.allowHTTP
	store, err := secretstore.Vault(c.VaultConfig)
	var wrong *secretstore.ConfigError
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			if c.Address == "" && p.Path == "address" {
				continue // already reported
			}
			_, where, _ := n.locate(p.Path)
			d.at(where, strings.TrimSuffix(path+"."+p.Path, "."), "%s", p.Message)
		}
	}
	cached, err := secretstore.Cached(store, cmp.Or(c.Remember, defaultRemember), time.Now)
	if err != nil {
		d.at(n.get("remember").value.Place, path+".remember", "%v", err)
	}
	if wrong != nil || err != nil {
		return nil
	}
	switch {
	case c.Transit == nil:
	case d.keys != nil:
		d.at(n.get("transit").value.Place, path+".transit", "is there twice: one store of the file may have keys")
	default:
		d.keys = store
	}
	return cached
}
