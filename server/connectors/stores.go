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
			d.report(n.Place, "secrets", "has more than %d stores", maxStores)
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
	// Type is the type of the store.
	Type string `file:",required"`
}

// A storeFile is an item of the member secrets. Its fields are the members of that type of store.
type storeFile interface {
	// open returns the store. It returns nil after it has reported what is wrong.
	open(d *definer, n *node, path string) host.Secrets
}

// storeFiles has the types of stores of secrets.
var storeFiles = []variant[storeFile]{
	{"env", func() storeFile { return &envFile{} }},
	{"dir", func() storeFile { return &dirFile{} }},
	{"age", func() storeFile { return &ageFile{} }},
	{"vault", func() storeFile { return &vaultFile{} }},
}

type envFile struct{ storeType }

func (*envFile) open(d *definer, _ *node, _ string) host.Secrets {
	d.environment = true
	return host.EnvSecrets()
}

type dirFile struct {
	storeType
	// Path is the path of the directory.
	Path string `file:",required,path"`
}

func (f *dirFile) open(*definer, *node, string) host.Secrets {
	return secretstore.Dir(f.Path, time.Now)
}

type ageFile struct {
	storeType
	// File is the path of the file: a JSON object of names and values, encrypted with age.
	File string `file:",required,path"`
	// Identity is the path of the file with the key that decrypts it. It may not be open to everybody on the machine.
	Identity string `file:",required,path"`
}

func (f *ageFile) open(*definer, *node, string) host.Secrets {
	return secretstore.Age(f.File, f.Identity, time.Now)
}

func (d *definer) store(n *node, path string) host.Secrets {
	file, ok := decodeVariant(d, n, path, storeFiles)
	if !ok {
		return nil
	}
	return file.open(d, n, path)
}

// A variant is a type of store, of secrets or of state.
type variant[F any] struct {
	// name is the value of the member type.
	name string
	// file returns a pointer to the struct with the members of this type.
	file func() F
}

// decodeVariant reads an object whose member type is the name of a variant. It returns false if there is no such variant, after it
// has reported that.
func decodeVariant[F any](d *definer, n *node, path string, all []variant[F]) (file F, ok bool) {
	kind, _ := stringOf(n.get("type"))
	names := make([]string, len(all))
	for i, v := range all {
		if names[i] = v.name; v.name == kind {
			file = v.file()
			d.decode(n, path, file)
			return file, true
		}
	}
	d.otherType(n, path, names...)
	return file, false
}

// otherType reports that the type of a store is missing, or is none of types.
func (d *definer) otherType(n *node, path string, types ...string) {
	var c storeType
	if d.members(n, path, reflect.ValueOf(&c).Elem()); c.Type != "" {
		d.report(n.get("type").value.Place, path+".type", "there is no store of type %q%s", c.Type, problem.DidYouMean(c.Type, types))
	}
}

type vaultFile struct {
	storeType
	secretstore.VaultConfig
	// Remember is the time for which an answer is used again. A rotated secret counts after it at the latest.
	Remember time.Duration `default:"5s"`
}

func (f *vaultFile) open(d *definer, n *node, path string) host.Secrets {
	f.HTTP = d.egress.AllowsHTTP
	store, err := secretstore.Vault(f.VaultConfig)
	var wrong *secretstore.ConfigError
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			if f.Address == "" && p.Path == "address" {
				continue // already reported
			}
			_, where, _ := n.locate(p.Path)
			d.report(where, strings.TrimSuffix(path+"."+p.Path, "."), "%s", p.Message)
		}
	}
	cached, err := secretstore.Cached(store, cmp.Or(f.Remember, defaultRemember), time.Now)
	if err != nil {
		d.report(n.get("remember").value.Place, path+".remember", "%v", err)
	}
	if wrong != nil || err != nil {
		return nil
	}
	switch {
	case f.Transit == nil:
	case d.keys != nil:
		d.report(n.get("transit").value.Place, path+".transit", "is there twice: one store of the file may have keys")
	default:
		d.keys = store
	}
	return cached
}
