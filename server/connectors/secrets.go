package connectors

import (
	"cmp"
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// checkVariables reports secrets whose environment variable is that of another one.
func (l *loader) checkVariables(c *definition, names []string) {
	if !l.options.Environment {
		return
	}
	for _, name := range names {
		if strings.Contains(name, "/") {
			continue // of a tenant or a user, which are not in the environment
		}
		variable := expr.EnvName(name)
		switch previous, ok := l.variables[variable]; {
		case !ok:
			l.variables[variable] = name
		case previous != name && !l.skip():
			path, where := l.mention(c, name)
			l.report(where, path, "the secrets %q and %q are the same environment variable, %s: rename one of them", previous, name, variable)
		}
	}
}

// secrets reports secrets that cannot be read. If all can be read, it reports keys and values that cannot be used. It reports
// nothing about the secrets of tenants and users that the options do not name, which may exist or not.
func (l *loader) secrets(ctx context.Context, c *definition, connected *host.Connector, names []string) {
	complete := true
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if l.options.Unread(name) {
			complete = false
			continue
		}
		value, err := l.set.secret(ctx, name, l.options.User)
		if err == nil {
			l.warnOfSecret(ctx, c, name, oddSecret(value))
			continue
		}
		complete = false
		if !l.skip() {
			path, where := l.mention(c, name)
			l.report(where, path, "secret %q: %v", name, err)
		}
	}
	if complete && c.url != nil && l.certificate(ctx, c, connected) {
		l.rehearse(ctx, c, connected)
	}
}

// warnOfSecret warns of a secret of which something is probably wrong. The message is about the secret.
func (l *loader) warnOfSecret(ctx context.Context, c *definition, name, message string) {
	switch {
	case message == "":
	case l.options.Inspect:
		path, where := l.mention(c, name)
		l.warn(where, path, "secret %q %s", name, message)
	case l.options.Host.Logger != nil:
		l.options.Host.Logger.LogAttrs(ctx, slog.LevelWarn, "a secret "+message, slog.String("secret", name), slog.String("connector", c.gateway.Permalink))
	}
}

// certificate reports a client certificate that cannot be used, and returns false then.
func (l *loader) certificate(ctx context.Context, c *definition, connected *host.Connector) bool {
	certificate, err := connected.ClientCertificate(host.WithUser(ctx, l.rehearsalUser()))
	var failed *host.Error
	path := "tls"
	switch {
	case errors.As(err, &failed):
		path, err = cmp.Or(failed.Field, path), failed.Err
	case err == nil && certificate != nil:
		path, err = certificate.Path, certificate.Ended(l.options.Host.Clock())
	}
	switch where := c.member.place(path); {
	case err != nil:
		l.report(where, c.path()+"."+path, "%s", strings.TrimPrefix(err.Error(), path+": "))
		return false
	case certificate == nil:
		return true
	case certificate.EndsSoon(l.options.Host.Clock()):
		l.warn(where, c.path()+"."+path, "%s ends at %s, within 30 days: renew it", certificate.Subject, moment(certificate.NotAfter))
	}
	l.set.ClientCertificates[c.gateway.Permalink] = certificate
	return true
}

// rehearsalUser returns the user of a rehearsal, because a check of the file cannot know whether requests have a user.
func (l *loader) rehearsalUser() host.User {
	return host.User{
		ID: cmp.Or(l.options.User.ID, "1"), Email: "user@example.com", Username: "user", FirstName: "First", LastName: "Last",
		TenantID: cmp.Or(l.options.User.TenantID, "1"), Token: "token",
	}
}

// rehearse explains a request, to find problems that show only when templates are rendered and keys are used. It ignores errors of the
// plugin, which may be due to the made-up request. Then it checks the keys that stay in their store, which no explained request uses.
func (l *loader) rehearse(ctx context.Context, c *definition, connected *host.Connector) {
	ctx = host.WithUser(ctx, l.rehearsalUser())
	err := explain(ctx, connected, http.MethodGet, c.sampleURL())
	if failed, ok := errors.AsType[*host.Error](err); ok && failed.Stage == host.StageMutation {
		method, target := c.writableRequest()
		err = explain(ctx, connected, method, target)
	}
	if !l.reportRehearsal(c, err) {
		l.reportRehearsal(c, connected.CheckKeys(ctx))
	}
}

// explain explains a request without a body, to which the members of a form may be added.
func explain(ctx context.Context, connected *host.Connector, method string, target *url.URL) error {
	request, err := http.NewRequestWithContext(ctx, method, target.String(), http.NoBody)
	if err == nil {
		_, err = connected.Explain(request)
	}
	return err
}

// writableRequest returns the method and the URL of a request that callers may make, and that has a place for each credential: its method has
// a body, if one of the connector's does, and its path each text of the configuration, since any may be one that a credential replaces.
func (c *definition) writableRequest() (method string, target *url.URL) {
	methods := slices.DeleteFunc(slices.Clone(c.gateway.Methods), func(m string) bool { return m == http.MethodGet || m == http.MethodHead })
	var texts []string
	for _, a := range c.auths {
		for _, name := range slices.Sorted(maps.Keys(a.Config)) {
			if text, ok := a.Config[name].(string); ok && text != "" && !strings.Contains(text, "{{") {
				texts = append(texts, url.PathEscape(text))
			}
		}
	}
	return append(methods, http.MethodGet)[0], c.sampleURL().JoinPath(texts...)
}

// sampleURL returns the connector's URL. If the tenant chooses its host, it has the host of a tenant.
func (c *definition) sampleURL() *url.URL {
	sample := *c.url
	sample.Host = strings.Replace(sample.Host, "*", "tenant", 1)
	return &sample
}

// reportRehearsal reports an error of a rehearsal. It returns false if there is nothing to report.
func (l *loader) reportRehearsal(c *definition, err error) bool {
	var failed *host.Error
	var metadata *host.DiscoveryError
	switch {
	case err == nil:
		return false
	case !errors.As(err, &failed):
		l.report(c.member.Place, c.path(), "%v", err)
		return true
	case errors.As(err, &metadata) && !failed.Retryable(): // an issuer that is down is no problem of the file
	case failed.Stage != host.StageSign && failed.Stage != host.StageTemplate && failed.Stage != host.StageIdentity && failed.Stage != host.StageMutation:
		return false
	}
	a := c.authAt(cmp.Or(failed.Path, c.auths[0].path))
	where := c.member.place(a.path + ".config")
	if failed.Stage == host.StageTemplate && len(c.gateway.Hosts) > 0 && l.options.User.TenantID == "" { // the tenant of the rehearsal is made up
		l.warn(where, c.path()+"."+a.path+".config", "was not tried, because its host depends on the tenant: --tenant ID says which")
		return true
	}
	_, ok := a.field(failed.Field)
	for _, f := range a.info.Fields {
		n, _, found := c.member.locate(a.path + ".config." + a.writtenAs(f))
		if found && failed.Stage == host.StageSign && (f.Name == failed.Field || f.Kind == abi.KindKey && !ok) {
			where = n.Place
		}
	}
	l.report(where, c.path()+"."+a.path+".config", "%v", failed.Err)
	return true
}

// mention returns the path and the place at which a connector first names a secret.
func (l *loader) mention(c *definition, secret string) (secretPath string, where problem.Place) {
	name := path.Base(secret)
	var parts []string
	for _, a := range c.auths {
		parts = append(parts, a.path+".config")
	}
	for _, part := range append(parts, "tls", "headers", "query") {
		n, _, found := c.member.locate(part)
		if !found {
			continue
		}
		n.walk(c.path()+"."+part, func(n *node, path string) bool {
			text, _ := n.value.(string)
			before, _, ok := strings.Cut(text, "'"+name+"'")
			if !ok {
				before, _, ok = strings.Cut(text, `"`+name+`"`)
			}
			if ok && secretPath == "" {
				secretPath = path
				where, _ = l.source.character(n, utf8.RuneCountInString(before)+1)
			}
			return secretPath == ""
		})
		if secretPath != "" {
			return secretPath, where
		}
	}
	return c.path() + "." + parts[0], c.member.place(parts[0])
}

// maxStores limits the stores of a file, because each may hold a file of certificates in memory.
const maxStores = 32

// openStores opens the stores of the member secrets, in the order in which they are asked, in place of those of the options.
func (d *definer) openStores(ctx context.Context) {
	var all []host.Secrets
	if d.options.First != nil {
		all = append(all, d.options.First)
	}
	before := len(all)
	d.options.Environment = d.options.Environment && len(d.file.Secrets) == 0
	for i, n := range d.firstItems(d.file.Secrets, maxStores, "secrets", "stores") {
		path := fmt.Sprintf("secrets[%d]", i)
		if !d.is(n, object, path, "secrets[]") {
			continue
		}
		if file, ok := decodeVariant(d, n, path, "store", storeFiles); ok {
			d.above, d.placeholders = host.FirstOf(all...), textsOf(file)
			if store := file.open(ctx, d, n, path); store != nil {
				all = append(all, store)
			}
		}
	}
	if len(all) > before {
		d.options.Host.Secrets = host.FirstOf(all...)
	}
	if d.keys != nil {
		d.options.Host.Keys = d.keys
	}
}

// storeType holds the member that all stores have.
type storeType struct {
	// Type is the type of the store.
	Type string `file:",required"`
}

// A storeFile is an item of the member secrets. Its fields are the members of that type of store.
type storeFile interface {
	// open returns the store. It returns nil after it has reported what is wrong.
	open(ctx context.Context, d *definer, n *node, path string) host.Secrets
}

var storeFiles = []variant[storeFile]{
	{"env", "A secret NAME is the environment variable KEYWRIGHT_SECRET_NAME.", func() storeFile { return &envFile{} }},
	{"dir", "A directory with a file for each secret.", func() storeFile { return &dirFile{} }},
	{"age", "A file with all secrets, encrypted with age.", func() storeFile { return &ageFile{} }},
	{"state", "The store of state, with what tenants have given: their secrets and variables.", func() storeFile { return &ownedFile{} }},
	{"vault", "The key-value engine of Vault or OpenBao, version 2.", func() storeFile { return &vaultFile{} }},
	{"connector", "An API, which the members read and first describe.", func() storeFile { return &connectorStore{} }},
	{"aws_instance", "The metadata service of an EC2 instance.", func() storeFile { return &instanceStore{} }},
	{"aws_secrets_manager", "AWS Secrets Manager.", func() storeFile { return &awsStore{} }},
	{"aws_ssm", "The parameter store of AWS Systems Manager.", func() storeFile { return &awsStore{} }},
	{"gcp_secret_manager", "Google Secret Manager.", func() storeFile { return &googleStore{} }},
	{"azure_key_vault", "Azure Key Vault.", func() storeFile { return &azureStore{} }},
	{"aws_kms", "AWS KMS, for keys alone.", func() storeFile { return &awsKeys{} }},
	{"gcp_kms", "Google Cloud KMS, for keys alone.", func() storeFile { return &googleKeys{} }},
	{"onepassword_connect", "A 1Password Connect server.", func() storeFile { return &onePasswordStore{} }},
	{"doppler", "Doppler.", func() storeFile { return &dopplerStore{} }},
	{"infisical", "Infisical.", func() storeFile { return &infisicalStore{} }},
}

type envFile struct{ storeType }

func (*envFile) open(_ context.Context, d *definer, _ *node, _ string) host.Secrets {
	d.options.Environment = true
	return host.EnvSecrets()
}

// An ownedFile is a store without members of its own.
type ownedFile struct{ storeType }

func (*ownedFile) open(_ context.Context, d *definer, n *node, path string) host.Secrets {
	switch {
	case d.file.State == nil:
		d.report(n.Place, path, "is a store of state, and the file has none: add the member state")
		return nil
	case d.owned != nil:
		d.report(n.Place, path, "is there twice: the file has one store of state")
		return nil
	}
	clock := d.options.Host.Clock
	d.owned, d.ownedVariables = secretstore.NewOwned("secret", clock), secretstore.NewOwned("variable", clock)
	d.options.Host.OwnedVariables = d.ownedVariables
	return d.owned
}

type dirFile struct {
	storeType
	// Path is the path of the directory.
	Path string `file:",required,path"`
}

func (f *dirFile) open(_ context.Context, d *definer, _ *node, _ string) host.Secrets {
	return secretstore.Dir(f.Path, d.options.Host.Clock)
}

type ageFile struct {
	storeType
	// File is the path of the file: a JSON object of names and values, encrypted with age.
	File string `file:",required,path"`
	// Identity is the path of the file with the key that decrypts it. It may not be open to everybody on the machine.
	Identity string `file:",required,path"`
}

func (f *ageFile) open(_ context.Context, d *definer, n *node, path string) host.Secrets {
	if fips140.Enforced() {
		d.report(n.Place, path, "age is not allowed with fips140=only: keep these secrets in a store of another type")
	}
	return secretstore.Age(f.File, f.Identity, d.options.Host.Clock)
}

// A variant is a type of store, of secrets or of state, or of identity.
type variant[F any] struct {
	// name is the value of the member type, and meaning a sentence about it.
	name, meaning string
	// file returns a pointer to the struct with the members of this type.
	file func() F
}

// decodeVariant reads an object whose member type is the name of a variant. If there is none of what it reads, it reports that, and returns false.
func decodeVariant[F any](d *definer, n *node, path, what string, all []variant[F]) (file F, ok bool) {
	kind, _ := stringOf(n.get("type"))
	names := make([]string, len(all))
	for i, v := range all {
		if names[i] = v.name; v.name == kind {
			file = v.file()
			d.decode(n, path, file)
			return file, true
		}
	}
	var c storeType
	if d.members(n, path, reflect.ValueOf(&c).Elem()); c.Type != "" {
		d.report(n.get("type").value.Place, path+".type", "there is no %s of type %q%s", what, c.Type, problem.DidYouMean(c.Type, names))
	}
	return file, false
}

type vaultFile struct {
	storeType
	secretstore.VaultConfig
	// Remember is the time for which an answer is used again. A rotated secret counts after it at the latest.
	Remember time.Duration `default:"5s"`
}

func (f *vaultFile) open(_ context.Context, d *definer, n *node, path string) host.Secrets {
	f.HTTP, f.Clock, f.Identities = d.set.Egress.AllowsHTTP, d.options.Host.Clock, d.options.Host.Identities
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
	cached, err := secretstore.Cached(store, cmp.Or(f.Remember, 5*time.Second), d.options.Host.Clock) // as the tag says
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
