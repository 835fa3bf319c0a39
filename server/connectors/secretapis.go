package connectors

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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
	if f.Egress != nil {
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
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{URL: f.URL, First: f.First, Read: f.Read})
}

// awsStore is AWS Secrets Manager (docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html).
type awsStore struct {
	// Region is the AWS region.
	Region string `file:",required"`
	// Prefix precedes the name of each secret, such as keywright/.
	Prefix string
	apiStore
}

func (f *awsStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{
		URL:  "https://secretsmanager." + f.Region + ".amazonaws.com",
		Read: awsRequest("secretsmanager.GetSecretValue", map[string]any{"SecretId": f.Prefix + "{name}"}, "json:/SecretString", "ResourceNotFoundException"),
	})
}

// awsRequest returns a request of the JSON protocol of AWS.
func awsRequest(target string, body map[string]any, from, missing string) secretstore.Request {
	text, _ := json.Marshal(body) // texts and true always have one
	return secretstore.Request{
		Path: "/", Body: string(text), From: from, Missing: []string{missing},
		Headers: []secretstore.RequestMember{{Name: "X-Amz-Target", Value: target}, {Name: "Content-Type", Value: "application/x-amz-json-1.1"}},
	}
}

// ssmStore is the parameter store of AWS Systems Manager (docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html).
type ssmStore struct{ awsStore }

func (f *ssmStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{
		URL:  "https://ssm." + f.Region + ".amazonaws.com",
		Read: awsRequest("AmazonSSM.GetParameter", map[string]any{"Name": f.Prefix + "{name}", "WithDecryption": true}, "json:/Parameter/Value", "ParameterNotFound"),
	})
}

// googleStore is Google Secret Manager (docs.cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access).
type googleStore struct {
	// Project is the ID of the project.
	Project string `file:",required"`
	apiStore
}

func (f *googleStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{URL: "https://secretmanager.googleapis.com", Read: secretstore.Request{
		Path: "/v1/projects/" + url.PathEscape(f.Project) + "/secrets/{name}/versions/latest:access", From: "json:/payload/data", Encoding: "base64", Missing: []string{"404"},
	}})
}

// azureStore is Azure Key Vault (learn.microsoft.com/rest/api/keyvault/secrets/get-secret).
type azureStore struct {
	// URL is the URL of the vault, such as https://acme.vault.azure.net.
	URL string `file:",required"`
	// Keys reports whether get_key names keys of the vault. One store of a file may have keys.
	Keys bool `default:"false"`
	apiStore
}

// azureVersion is a version of Azure's API that has all of this (learn.microsoft.com/rest/api/keyvault/keys/sign/sign).
var azureVersion = []secretstore.RequestMember{{Name: "api-version", Value: "7.4"}}

func (f *azureStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	if f.Keys {
		f.connectKeys(ctx, d, n, path, secretstore.KeyAPI{
			URL: f.URL, ID: "json:/key/kid", Encoding: base64.RawURLEncoding,
			Public: secretstore.Request{Path: "/keys/{name}", Query: azureVersion, From: "json:/key", Missing: []string{"404"}},
			Signature: secretstore.Request{
				Path: "/keys/{name}/{id}/sign", Query: azureVersion, Body: `{"alg":"{algorithm}","value":"{digest}"}`, From: "json:/value", Missing: []string{"404"},
			},
			Algorithms: algorithmNames(func(name string) string { return name }),
		})
	}
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{URL: f.URL, Read: secretstore.Request{
		Path: "/secrets/{name}", Query: azureVersion, From: "json:/value", Missing: []string{"404"},
	}})
}

// algorithmNames returns a service's names of the algorithms RS, PS and ES with each hash.
func algorithmNames(name func(string) string) map[string]string {
	all := map[string]string{}
	for _, family := range []string{"RS", "PS", "ES"} {
		for _, bits := range []string{"256", "384", "512"} {
			all[family+bits] = name(family + bits)
		}
	}
	return all
}

// awsKeys is AWS KMS (docs.aws.amazon.com/kms/latest/APIReference/API_Sign.html, API_GetPublicKey.html).
type awsKeys struct {
	// Region is the AWS region.
	Region string `file:",required"`
	// Prefix precedes the name of each key.
	Prefix string `default:"alias/"`
	apiStore
}

func (f *awsKeys) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	key := cmp.Or(f.Prefix, "alias/") + "{name}"
	f.connectKeys(ctx, d, n, path, secretstore.KeyAPI{
		URL: "https://kms." + f.Region + ".amazonaws.com", DER: true, Encoding: base64.StdEncoding,
		Public: awsRequest("TrentService.GetPublicKey", map[string]any{"KeyId": key}, "json:/PublicKey", "NotFoundException"),
		Signature: awsRequest("TrentService.Sign", map[string]any{
			"KeyId": key, "Message": "{digest}", "MessageType": "DIGEST", "SigningAlgorithm": "{algorithm}",
		}, "json:/Signature", "NotFoundException"),
		Algorithms: algorithmNames(func(name string) string {
			family := map[string]string{"RS": "RSASSA_PKCS1_V1_5", "PS": "RSASSA_PSS", "ES": "ECDSA"}[name[:2]]
			return family + "_SHA_" + name[2:]
		}),
	})
	return nil
}

// googleKeys is Google Cloud KMS (docs.cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings.cryptoKeys.cryptoKeyVersions).
type googleKeys struct {
	// Project is the ID of the project.
	Project string `file:",required"`
	// Location is the location of the key ring, such as europe-west3.
	Location string `file:",required"`
	// KeyRing is the name of the key ring.
	KeyRing string `file:",required"`
	apiStore
}

func (f *googleKeys) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	version := "/v1/projects/" + url.PathEscape(f.Project) + "/locations/" + url.PathEscape(f.Location) + "/keyRings/" + url.PathEscape(f.KeyRing) +
		"/cryptoKeys/{name}/cryptoKeyVersions/{version}"
	f.connectKeys(ctx, d, n, path, secretstore.KeyAPI{
		URL: "https://cloudkms.googleapis.com", Versions: true, DER: true, Encoding: base64.StdEncoding,
		Public: secretstore.Request{Path: version + "/publicKey", From: "json:/pem", Missing: []string{"404"}},
		Signature: secretstore.Request{
			Path: version + ":asymmetricSign", Body: `{"digest":{"{hash}":"{digest}"}}`, From: "json:/signature", Missing: []string{"404"},
		},
		Algorithms: algorithmNames(func(name string) string { return name }), // the version of the key has its own
	})
	return nil
}

// onePasswordStore is a 1Password Connect server (developer.1password.com/docs/connect/api-reference).
type onePasswordStore struct {
	// URL is the URL of the server, without /v1.
	URL string `file:",required"`
	// Vault is the ID of the vault.
	Vault string `file:",required"`
	// Field is the label of the field that has the value. The name of the secret is the title of the item.
	Field string `default:"password"`
	apiStore
}

func (f *onePasswordStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	items := "/v1/vaults/" + url.PathEscape(f.Vault) + "/items"
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{
		URL:   f.URL,
		First: &secretstore.Request{Path: items, Query: []secretstore.RequestMember{{Name: "filter", Value: `title eq "{name}"`}}, From: "json:/0/id"},
		Read:  secretstore.Request{Path: items + "/{first}", From: "json:/fields/[label=" + cmp.Or(f.Field, "password") + "]/value", Missing: []string{"404"}},
	})
}

// dopplerStore is Doppler (docs.doppler.com/reference/secrets-get).
type dopplerStore struct {
	// Project is the name of the project.
	Project string `file:",required"`
	// Config is the name of the config, such as prd.
	Config string `file:",required"`
	apiStore
}

func (f *dopplerStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{URL: "https://api.doppler.com", Read: secretstore.Request{
		Path: "/v3/configs/config/secret", From: "json:/value/computed", Missing: []string{"404"},
		Query: []secretstore.RequestMember{{Name: "project", Value: f.Project}, {Name: "config", Value: f.Config}, {Name: "name", Value: "{name}"}},
	}})
}

// infisicalStore is Infisical (infisical.com/docs/api-reference/endpoints/secrets/read).
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

func (f *infisicalStore) open(ctx context.Context, d *definer, n *node, path string) host.Secrets {
	return f.connect(ctx, d, n, path, secretstore.ConnectorConfig{URL: cmp.Or(f.URL, "https://us.infisical.com"), Read: secretstore.Request{
		Path: "/api/v4/secrets/{name}", From: "json:/secret/secretValue", Missing: []string{"404"},
		Query: []secretstore.RequestMember{
			{Name: "projectId", Value: f.Project}, {Name: "environment", Value: f.Environment}, {Name: "secretPath", Value: cmp.Or(f.Folder, "/")},
		},
	}})
}
