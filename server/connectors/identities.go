package connectors

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/internal/identities"
)

const maxIdentities = 32

func (d *definer) openIdentities() {
	var all []identities.Identity
	set := identities.New(d.options.Host.Clock)
	for i, n := range d.firstItems(d.file.Identities, maxIdentities, "identities", "identities") {
		path := fmt.Sprintf("identities[%d]", i)
		if !d.is(n, object, path, "identities[]") {
			continue
		}
		file, ok := decodeVariant(d, n, path, "identity", identityFiles)
		if !ok {
			continue
		}
		one := file.open(d, n, path)
		d.checkIdentity(n, path, &one)
		if slices.ContainsFunc(all, func(previous identities.Identity) bool { return previous.Name == one.Name }) {
			d.report(n.place("name"), path+".name", "is also that of another identity: give one of them another name")
			continue
		}
		all = append(all, one)
		if issuer, ok := file.(*issuerIdentity); ok {
			issuer.path = path
			d.startIssuer = func() { issuer.start(d, n, one, set) }
			continue
		}
		set.Add(one)
	}
	if len(all) > 0 {
		d.options.Host.Identities = set
	}
}

// checkIdentity checks the members that all identities have. A token of the process may be none that the gateway takes for a session.
func (d *definer) checkIdentity(n *node, path string, one *identities.Identity) {
	if one.Name != "" && !expr.ValidName(one.Name) {
		d.report(n.place("name"), path+".name", "has to be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit")
	}
	var sessions []string
	if jwt := d.file.Gateway.User.JWT; jwt != nil {
		sessions = jwt.Audiences
	}
	for _, audience := range one.Expect.Audiences {
		if slices.Contains(sessions, audience) {
			d.report(n.place("expect"), path+".expect.aud", "has one of gateway.user.jwt.audiences: a session would be a token of the process")
		}
	}
	for i, a := range one.For {
		item := fmt.Sprintf("for[%d]", i)
		for j, name := range a.Hosts {
			if _, err := urlcheck.ParseHost(name); err != nil {
				where := fmt.Sprintf("%s.hosts[%d]", item, j)
				d.report(n.place(where), path+"."+where, "%v", err)
				one.For[i].Hosts = nil
			}
		}
		if slices.Contains(sessions, a.Audience) {
			d.report(n.place(item), path+"."+item+".audience", "is also one of gateway.user.jwt.audiences: a token of the process would be the session of a user, or a session a token of the process")
		}
		if slices.ContainsFunc(one.For[:i], func(previous identities.Audience) bool { return previous.Audience == a.Audience }) {
			d.report(n.place(item), path+"."+item+".audience", "is there twice: list all of its hosts in one place")
		}
	}
}

// identityType holds the members that all identities have.
type identityType struct {
	// Type is the source of the token.
	Type string `file:",required"`
	// Name is the name of the identity in identity('NAME', 'AUDIENCE').
	Name string `file:",required"`
	// For says whom the tokens are for, and which hosts of token endpoints get them.
	For []identities.Audience `file:",required"`
	// Expect says what the tokens must be, beside their audience. Another token is not sent.
	Expect identities.Expectation
	// Once says that a token may be sent once only, for servers that remember its jti. Each exchange then gets another one.
	Once bool `default:"false"`
}

// identity returns an identity with these members, whose tokens come from fetch.
func (t *identityType) identity(fetch func(context.Context, string) (string, error), remember time.Duration) identities.Identity {
	return identities.Identity{Name: t.Name, For: t.For, Expect: t.Expect, Once: t.Once, Fetch: fetch, Remember: remember}
}

// An identityFile is an item of the member identities. Its fields are the members of that type of identity.
type identityFile interface {
	open(d *definer, n *node, path string) identities.Identity
}

var identityFiles = []variant[identityFile]{
	{"file", "A file has the token, as in pods of Kubernetes.", func() identityFile { return &fileIdentity{} }},
	{"env", "An environment variable has the token, as in jobs of GitLab.", func() identityFile { return &envIdentity{} }},
	{"issuer", "The gateway is the issuer, with a key of a store of keys.", func() identityFile { return &issuerIdentity{} }},
	{"spiffe", "The Workload API of SPIFFE.", func() identityFile { return &spiffeIdentity{} }},
	{"http", "A request gets the token.", func() identityFile { return &httpIdentity{} }},
	{"gcp", "The metadata service of Google Cloud, also in pods of GKE.", func() identityFile { return &httpIdentity{} }},
	{"azure", "The metadata service of Azure, for a managed identity.", func() identityFile { return &httpIdentity{} }},
	{"github", "A job of GitHub Actions with the permission id-token: write.", func() identityFile { return &httpIdentity{} }},
}

type fileIdentity struct {
	identityType
	// Path is the path of the file. It is read once a second at most.
	Path string `file:",required,path"`
}

func (f *fileIdentity) open(*definer, *node, string) identities.Identity {
	return f.identity(identities.File(f.Path), time.Second)
}

type envIdentity struct {
	identityType
	// Variable is the environment variable that has the token.
	Variable string `file:",required"`
}

func (f *envIdentity) open(*definer, *node, string) identities.Identity {
	return f.identity(identities.Env(f.Variable), time.Second)
}

type issuerIdentity struct {
	identityType
	// Issuer is the URL at which parties find the documents of the gateway: an https origin, without a slash at the end.
	Issuer string `file:",required"`
	// Key is the key that signs, as {{ get_key('NAME') }}. It serves nothing else.
	Key string `file:",required"`
	// Subject is the claim sub. It may have {{ tenant_id }} and {{ user.id }}, which are percent-encoded.
	Subject string `file:",required"`
	// TTL is the life of a token, up to an hour.
	TTL time.Duration `default:"5m"`

	path string
	own  *identities.Issuer
}

// open checks the members. The tokens of the issuer begin with the stores, none of which may need them.
func (f *issuerIdentity) open(d *definer, n *node, path string) identities.Identity {
	f.own = &identities.Issuer{URL: f.Issuer, Subject: f.Subject, TTL: cmp.Or(f.TTL, 5*time.Minute), Clock: d.options.Host.Clock, Random: cmp.Or(d.options.Host.Random, rand.Reader)}
	wrong := func(member, format string, values ...any) {
		if n.get(member) != nil {
			d.report(n.place(member), path+"."+member, format, values...)
		}
	}
	if d.startIssuer != nil {
		d.report(n.Place, path, "is the second issuer: one serves the documents of the gateway")
	}
	if u, err := url.Parse(f.Issuer); err != nil || u.Scheme != "https" || u.Host == "" || f.Issuer != "https://"+u.Host {
		wrong("issuer", "is no https origin, such as https://gateway.example.com")
	}
	if jwt := d.file.Gateway.User.JWT; jwt != nil && jwt.Issuer == f.Issuer {
		wrong("issuer", "is also that of gateway.user.jwt: a token of the process would be the session of a user")
	}
	if f.own.Key = keyNamed(f.Key); f.own.Key.Name == "" {
		wrong("key", "is no key of a store of keys, as in {{ get_key('issuer') }}")
	}
	if err := f.own.CheckSubject(); err != nil {
		wrong("subject", "%v", err)
	}
	if f.own.TTL < 2*time.Minute {
		wrong("ttl", "is less than 2m: each request would need another token")
	}
	i := f.identity(f.own.Get, 0)
	i.Subject, i.Once = f.own.SubjectOf, true
	return i
}

// keyCall matches a template that is a key.
var keyCall = regexp.MustCompile(`^\{\{ *get_key\((?:'([^']+)'|"([^"]+)")(?:, *([0-9]{1,9}))?\) *\}\}$`)

// keyNamed returns the key that a template names, or none.
func keyNamed(text string) host.Key {
	m := keyCall.FindStringSubmatch(text)
	if m == nil {
		return host.Key{}
	}
	version, _ := strconv.Atoi(m[3]) // nothing is 0, the newest
	return host.Key{Name: m[1] + m[2], Version: version}
}

// start adds the identity to those of connectors. From here on, the key serves nothing else.
func (f *issuerIdentity) start(d *definer, n *node, one identities.Identity, set *identities.Set) {
	if d.options.Host.Keys == nil {
		d.report(n.place("key"), f.path+".key", "needs a store of keys in secrets, such as vault with transit")
		return
	}
	f.own.Keys = d.options.Host.Keys
	d.options.Host.Keys = identities.KeysExcept(f.own.Keys, f.own.Key.Name)
	d.set.Documents = f.own.Documents()
	set.Add(one)
}

type spiffeIdentity struct {
	identityType
	identities.Workload
}

func (f *spiffeIdentity) open(*definer, *node, string) identities.Identity {
	return f.identity(f.Get(f.Expect.Subject), 0)
}

type httpIdentity struct {
	identityType
	identities.Request
}

//go:embed identities.yaml
var identitiesYAML string

// open checks the request. Of a type other than http, what the item does not have is that of the preset.
func (f *httpIdentity) open(d *definer, n *node, path string) identities.Identity {
	var preset identities.Request
	if m := parse(context.Background(), identitiesYAML, &problems{}).get(f.Type); m != nil {
		d.members(m.value, path, reflect.ValueOf(&preset).Elem())
	}
	f.Request = preset.With(f.Request)
	if f.URL == "" {
		d.report(n.Place, path+".url", "is missing")
	} else if member, err := f.Check(); err != nil {
		_, where, _ := n.locate(member)
		d.report(where, path+"."+member, "%v", err)
	}
	return f.identity(f.Get(d.set.Egress), 0)
}
