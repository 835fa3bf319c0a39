package connect

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Personal reports whether the templates name something of the user.
func (p *Plan) Personal() bool { return len(p.Names.User) > 0 || p.Names.Tenant }

// FieldSecrets returns the names of the secrets in each field and in each member of TLS, sorted. The name user.token stands for the
// token of the user's session. Fields without secrets are left out.
func (p *Plan) FieldSecrets() map[string][]string {
	all := map[string][]string{}
	add := func(field string, names template.Names) {
		secrets := slices.Clone(names.Secrets)
		if names.UserToken() {
			secrets = append(secrets, "user.token")
		}
		if slices.Sort(secrets); len(secrets) > 0 {
			all[field] = slices.Compact(secrets)
		}
	}
	for name, f := range p.Fields {
		switch {
		case f.Text != nil:
			add(name, f.Text.Names())
		case f.Object != nil:
			add(name, f.Object.Names())
		}
	}
	for _, t := range p.TLS.templates() {
		add(t.path, t.Names())
	}
	return all
}

// slots sets the owners of the connector's slots: itself, and the origin of each URL that token requests may go to. So neither a
// connector nor an endpoint that hangs takes what others need. Where a template makes the host, its text stands for the origin.
func (k *checker) slots() {
	owners := []string{}
	for _, f := range k.plan.Fields {
		if f.Kind != abi.KindURL || f.Text == nil {
			continue
		}
		origin := f.Text.Source()
		if scheme, rest, _ := strings.Cut(origin, "://"); urlcheck.FixedHost(origin + "/") {
			end := strings.IndexAny(rest+"/", "/?#")
			origin = strings.ToLower(scheme + "://" + rest[:end])
		}
		owners = append(owners, origin)
	}
	slices.Sort(owners)
	k.plan.SlotOwners = append(slices.Compact(owners), "connector "+k.in.Name)
}

// setSeed sets seed to the hash of the connector's name, type, plugin, grants and configuration. The grants are
// part of it because a cache may outlive a host: a plugin must not get back what it stored under a grant after the
// grant was removed. So are the hosts that may get tokens of users, if a template names one.
func (p *Plan) setSeed(in *Input) error {
	config, err := strictjson.Marshal(p.Values)
	if err != nil {
		return err
	}
	var d Digest
	d.Add(string(in.Salt[:]), in.Name, in.Plugin.Description.Type, string(in.Plugin.Digest[:]), string(config))
	d.Add(slices.Sorted(maps.Keys(in.Plugin.Grants))...)
	if t := in.TLS; t != nil { // a token may be bound to the certificate
		d.Add(t.Certificate, t.Key, t.CA)
		d.Add(t.For...)
	}
	if p.Names.UserToken() { // a host that is no longer listed may have issued what is in the cache
		d.Add(slices.Sorted(maps.Keys(in.UserTokenHosts))...)
	}
	p.seed = d.Sum()
	return nil
}

// partition returns the cache partition of a call. Calls share a partition if they have the same connector,
// configuration, and values of the secrets, endpoints, variables and user fields that the templates name.
func (p *Plan) partition(in *hostfn.Inputs) [32]byte {
	var buffer [1 << 10]byte
	d := Digest{append(buffer[:0], p.seed[:]...)}
	names := &p.Names
	for i, name := range names.Secrets {
		d.Add(name, in.Secrets[i])
	}
	for i, endpoint := range names.Discovered {
		d.Add(endpoint.Issuer, endpoint.Member, in.Discovered[i])
	}
	for _, name := range names.Variables {
		value, ok := in.Variables[name]
		d.Add(name, value, fmt.Sprint(ok))
	}
	for _, name := range names.User {
		d.Add(name, in.User.Field(name))
	}
	if names.Tenant {
		d.Add(in.TenantID)
	}
	if p.consent { // what was got with an earlier grant is not used with the next one
		d.Add(in.Grant)
	}
	return d.Sum()
}

// Digest hashes texts together with their lengths, so that different lists of texts have different hashes.
type Digest struct{ input []byte }

// Add appends texts.
func (d *Digest) Add(texts ...string) {
	for _, text := range texts {
		d.input = binary.BigEndian.AppendUint64(d.input, uint64(len(text)))
		d.input = append(d.input, text...)
	}
}

// Sum returns the hash.
func (d *Digest) Sum() [32]byte { return sha256.Sum256(d.input) }
