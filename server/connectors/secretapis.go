package connectors

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/codings"
	"github.com/keywright/keywright/server/internal/pkcs12"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// apiStore has the members of all stores behind an API: a connector authenticates the requests to it.
type apiStore struct {
	storeType
	// Auth is the auth type of the API and its configuration. It may name the secrets of stores above this one.
	Auth host.Auth `file:",required"`
	// Egress says where the store may connect to, with its token endpoint. A member takes the place of that of the file.
	Egress *egressFile
	// Names are names of secrets in this file with those at the store as their values. Other secrets have the same name there.
	Names []secretstore.RequestMember
	// Remember is the time for which an answer is used again. A rotated secret counts after it at the latest.
	Remember time.Duration `default:"30s"`
	// Timeout is the time of one lookup, with a token if it needs one.
	Timeout time.Duration `default:"10s"`

	// alone, if not nil, takes the place of Egress and of that of the file.
	alone *host.Egress
}

// connect returns the store that is asked by requests to a URL. It returns nil after it has reported what is wrong.
func (f *apiStore) connect(ctx context.Context, d *definer, n *node, path string, config secretstore.ConnectorConfig) host.Secrets {
	if config.Transport = f.transport(ctx, d, n, path, config.URL); config.Transport == nil {
		return nil
	}
	config.Names, config.Timeout = map[string]string{}, cmp.Or(f.Timeout, 10*time.Second)
	for _, pair := range f.Names {
		config.Names[pair.Name] = pair.Value
	}
	cached, err := secretstore.Cached(secretstore.Connector(config), cmp.Or(f.Remember, 30*time.Second), d.options.Host.Clock) // as the tags say
	if err != nil {
		d.report(n.get("remember").value.Place, path+".remember", "%v", err)
		return nil
	}
	return cached
}

// connectKeys makes the store of keys that is asked by requests to a URL that of the file.
func (f *apiStore) connectKeys(ctx context.Context, d *definer, n *node, path string, api secretstore.KeyAPI) {
	if api.Transport = f.transport(ctx, d, n, path, api.URL); api.Transport == nil {
		return
	}
	if d.keys != nil {
		d.report(n.Place, path, "has keys, and so has a store above it: one store of the file may have keys")
		return
	}
	api.Timeout, api.Clock = cmp.Or(f.Timeout, 10*time.Second), d.options.Host.Clock
	d.keys = secretstore.Keys(api)
}

// transport returns the transport of a connector to a URL. It returns nil after it has reported what is wrong.
func (f *apiStore) transport(ctx context.Context, d *definer, n *node, path, target string) http.RoundTripper {
	u, err := url.Parse(target)
	egress := d.set.Egress
	switch {
	case f.alone != nil:
		egress = *f.alone
	case f.Egress != nil:
		d.changeEgress(n.get("egress").value, f.Egress, path+".egress", &egress)
	}
	if err == nil && u.Scheme == "http" && !egress.AllowsHTTP(u) {
		err = errors.New("is plain http, which shows secrets to the network: use https" + orName)
	} else if err == nil && (u.Host == "" || u.RawQuery != "" || u.User != nil) {
		err = errors.New("is no URL of an API, such as https://vault.example.com")
	}
	if err != nil {
		d.report(n.place("url"), path+".url", "%v", err)
	}
	if len(d.all) > 0 || f.Auth.Type == "" {
		return nil // otherwise a problem that is already reported would come again
	}
	return f.connector(ctx, d, n, path, u, egress)
}

// connector returns the transport of a connector to the store. It is of a host of its own, whose secrets are those of the stores above:
// so no store can need itself.
func (f *apiStore) connector(ctx context.Context, d *definer, n *node, path string, u *url.URL, egress host.Egress) http.RoundTripper {
	config := d.options.Host
	config.Secrets, config.Keys, config.Egress, config.BuiltIns = d.above, nil, egress, BuiltIns(f.Auth.Type)
	config.State, config.Previous, config.Plugins, config.UserTokenHosts, config.Observe = nil, nil, nil, nil, nil
	config.ContentCodings, config.PKCS12 = codings.Further(), pkcs12.Read
	own, err := host.New(ctx, config)
	if err != nil {
		d.report(n.Place, path, "%v", err)
		return nil
	}
	d.set.storeHosts = append(d.set.storeHosts, own)
	c, err := own.NewConnector(ctx, host.ConnectorConfig{Name: path, Origins: []string{u.Scheme + "://" + u.Host}, Auth: host.Auths{f.Auth}})
	var wrong *host.ConfigError
	switch {
	case errors.As(err, &wrong):
		for _, p := range wrong.Problems {
			if p.Code == host.CodeNoState {
				p.Message = "is a type with a state, such as the consent of a user, which a store cannot have"
			}
			_, where, _ := n.locate(p.Path)
			d.report(where, path+"."+p.Path, "%s", p.Message)
		}
		return nil
	case err != nil:
		d.report(n.Place, path, "%v", err)
		return nil
	}
	return c.Transport(nil)
}

// connectorStore is a store that the file describes.
type connectorStore struct {
	// URL is the beginning of the URL of all requests to the store.
	URL string `file:",required"`
	// First is a request before each other one, whose value is {first} there, such as the ID that the store has for a name.
	First *secretstore.Request
	// Read is the request that reads a secret.
	Read secretstore.Request `file:",required"`
	apiStore
}

func (f *connectorStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	for name, r := range map[string]*secretstore.Request{"first": f.First, "read": &f.Read} {
		if r == nil {
			continue
		}
		if member, wrong := r.Check(); wrong != "" && r.From != "" {
			d.report(n.place(name+"."+member), path+"."+name+"."+member, "%s", wrong)
		}
	}
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{Service: secretstore.Service{URL: f.URL}, First: f.First, Read: f.Read})
}

//go:embed stores.yaml
var storesYAML string

// open opens a store of stores.yaml, with its keys if it has some.
func (f *apiStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.openPreset(ctx, d, n, path, true)
}

// openPreset is like open, and leaves the keys out unless keys is true.
func (f *apiStore) openPreset(ctx context.Context, d *definer, n *node, path string, keys bool) host.Secrets {
	var api struct {
		URL         string
		First, Read *secretstore.Request
		Keys        *secretstore.KeyAPI
	}
	d.members(parse(context.Background(), storesYAML, &problems{}).get(f.Type).value, path, reflect.ValueOf(&api).Elem())
	var texts []string
	for placeholder, text := range d.placeholders {
		texts = append(texts, placeholder, text)
	}
	target := strings.NewReplacer(texts...).Replace(api.URL)
	if api.Keys != nil && keys {
		api.Keys.URL, api.Keys.Texts = target, d.placeholders
		f.connectKeys(ctx, d, n, path, *api.Keys)
	}
	if api.Read == nil {
		return nil
	}
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{Service: secretstore.Service{URL: target, Texts: d.placeholders}, First: api.First, Read: *api.Read})
}

// textsOf returns the texts of a store of the file, by its members in braces. A member that is missing has its default.
func textsOf(store storeFile) map[string]string {
	all, v := map[string]string{}, reflect.ValueOf(store).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if f.Type.Kind() == reflect.String {
			all["{"+f.name+"}"] = cmp.Or(v.FieldByIndex(f.Index).String(), f.Tag.Get("default"))
		}
	}
	return all
}

// instanceStore is the metadata service of an EC2 instance, which needs no auth.
type instanceStore struct{ storeType }

func (f *instanceStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	const address = "169.254.169.254"
	alone := host.Egress{Allow: []netip.Prefix{netip.MustParsePrefix(address + "/32")}, PlainHTTP: []string{address}}
	return (&apiStore{storeType: f.storeType, Auth: host.Auth{Type: "none"}, Timeout: 2 * time.Second, alone: &alone}).open(ctx, d, n, path)
}

type awsStore struct {
	// Region is the AWS region.
	Region string `file:",required"`
	// Prefix precedes the name of each secret, such as keywright/.
	Prefix string
	apiStore
}

type googleStore struct {
	// Project is the ID of the project.
	Project string `file:",required"`
	apiStore
}

type azureStore struct {
	// URL is the URL of the vault, such as https://acme.vault.azure.net.
	URL string `file:",required"`
	// Keys reports whether get_key names keys of the vault. One store of a file may have keys.
	Keys bool `default:"false"`
	apiStore
}

func (f *azureStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.openPreset(ctx, d, n, path, f.Keys)
}

type awsKeys struct {
	// Region is the AWS region.
	Region string `file:",required"`
	// Prefix precedes the name of each key.
	Prefix string `default:"alias/"`
	apiStore
}

type googleKeys struct {
	// Project is the ID of the project.
	Project string `file:",required"`
	// Location is the location of the key ring, such as europe-west3.
	Location string `file:",required"`
	// KeyRing is the name of the key ring.
	KeyRing string `file:",required"`
	apiStore
}

type onePasswordStore struct {
	// URL is the URL of the server, without /v1.
	URL string `file:",required"`
	// Vault is the ID of the vault.
	Vault string `file:",required"`
	// Field is the label of the field that has the value. The name of the secret is the title of the item.
	Field string `default:"password"`
	apiStore
}

type dopplerStore struct {
	// Project is the name of the project.
	Project string `file:",required"`
	// Config is the name of the config, such as prd.
	Config string `file:",required"`
	apiStore
}

type infisicalStore struct {
	// URL is the URL of the server.
	URL string `default:"https://us.infisical.com"`
	// Project is the ID of the project.
	Project string `file:",required"`
	// Environment is the slug of the environment, such as prod.
	Environment string `file:",required"`
	// Folder is the path of the folder.
	Folder string `default:"/"`
	apiStore
}
