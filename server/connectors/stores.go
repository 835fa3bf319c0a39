package connectors

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// defaultRemember is how long an answer of Vault is remembered: a secret that is rotated counts after it at the latest.
const defaultRemember = 5 * time.Second

// maxStores is how many stores a file may name. Each may have a file of certificates in memory.
const maxStores = 32

// stores reads the member secrets: where secrets come from, in the order in which they are asked. It gives none when the file
// does not say.
func (d *definer) stores(root *node) (all []host.Secrets) {
	if root.kind != object {
		return nil
	}
	for i, n := range d.items(root, "", "secrets", "a list of stores, each with a type,") {
		if i == maxStores {
			d.at(n.Place, "secrets", "has more than %d stores", maxStores)
			break
		}
		path := fmt.Sprintf("secrets[%d]", i)
		if n.kind != object {
			d.at(n.Place, path, "is %s: an object with type is wanted", n.describe())
			continue
		}
		if store := d.store(n, path); store != nil {
			all = append(all, store)
		}
	}
	return all
}

func (d *definer) store(n *node, path string) host.Secrets {
	switch kind := d.text(n, path, "type"); kind {
	case "":
	case "env":
		d.only(n, path, "type")
		d.environment = true
		return host.EnvSecrets()
	case "dir":
		d.only(n, path, "type", "path")
		return secretstore.Dir(d.file(n, path, "path"), time.Now)
	case "age":
		d.only(n, path, "type", "file", "identity")
		return secretstore.Age(d.file(n, path, "file"), d.file(n, path, "identity"), time.Now)
	case "vault":
		return d.vault(n, path)
	default:
		d.at(n.get("type").value.Place, path+".type", "is none of env, dir, age, vault")
	}
	return nil
}

func (d *definer) vault(n *node, path string) host.Secrets {
	d.only(n, path, "type", "address", "namespace", "ca_file", "mount", "prefix", "field", "path", "token_file", "approle", "kubernetes", "timeout", "remember")
	c := secretstore.VaultConfig{
		Address: d.text(n, path, "address"), AllowHTTP: d.allowHTTP, Namespace: d.optional(n, path, "namespace"), CAFile: d.optionalFile(n, path, "ca_file"),
		Mount: d.optional(n, path, "mount"), Prefix: d.optional(n, path, "prefix"), Field: d.optional(n, path, "field"), Path: d.optional(n, path, "path"),
		TokenFile: d.optionalFile(n, path, "token_file"), Timeout: d.duration(n, path, "timeout"),
	}
	if a := d.object(n, path, "approle"); a != nil {
		at := path + ".approle"
		d.only(a, at, "mount", "role_id", "secret_id_file")
		c.AppRole = &secretstore.VaultAppRole{Mount: d.optional(a, at, "mount"), RoleID: d.text(a, at, "role_id"), SecretIDFile: d.file(a, at, "secret_id_file")}
	}
	if k := d.object(n, path, "kubernetes"); k != nil {
		at := path + ".kubernetes"
		d.only(k, at, "mount", "role", "token_file")
		c.Kubernetes = &secretstore.VaultKubernetes{Mount: d.optional(k, at, "mount"), Role: d.text(k, at, "role"), TokenFile: d.optionalFile(k, at, "token_file")}
	}
	remember := d.duration(n, path, "remember")
	if remember == 0 {
		remember = defaultRemember
	}
	store, err := secretstore.Vault(c)
	var wrong *secretstore.ConfigError
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			if c.Address == "" && p.Path == "address" {
				continue // complained of already
			}
			_, where, _ := n.locate(p.Path)
			d.at(where, strings.TrimSuffix(path+"."+p.Path, "."), "%s", p.Message)
		}
	}
	cached, err := secretstore.Cached(store, remember, time.Now)
	if err != nil {
		d.at(n.get("remember").value.Place, path+".remember", "%v", err)
	}
	if wrong != nil || err != nil {
		return nil
	}
	return cached
}

// file returns the path of a file that has to be named. Paths begin at the directory of this one.
func (d *definer) file(n *node, path, name string) string {
	file := d.text(n, path, name)
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(d.dir, file)
	}
	return file
}

func (d *definer) optionalFile(n *node, path, name string) string {
	if n.get(name) == nil {
		return ""
	}
	return d.file(n, path, name)
}
