package secretstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

const maxToken = 16 << 10 // bytes: tokens of service accounts can be long

// VaultConfig configures where secrets and keys are in HashiCorp Vault or OpenBao, and how to log in. Exactly one of TokenFile, AppRole,
// JWT and Kubernetes must be set, with its required members, and at most one of Path and Prefix.
type VaultConfig struct {
	// Address is the URL of the server, such as https://vault.example.com:8200, with a path before /v1 if a proxy needs one.
	Address string `file:",required,url"`
	// HTTP reports whether an Address may be of plain http, which shows secrets and the token to the network. Nil means that none may.
	HTTP func(*url.URL) bool `file:"-"`
	// Namespace is the namespace of Vault Enterprise or OpenBao.
	Namespace string
	// CAFile is the path of certificates in PEM with which the server's certificate is verified. It is read once. Without it,
	// those of the system.
	CAFile string `file:",path"`

	// Mount is the mount path of the key-value engine, version 2.
	Mount string `default:"secret"`
	// Prefix precedes the name of a secret: NAME is a field of the path PREFIX/NAME.
	//
	// The value is in the field Field. With the prefix apps/crm, the secret crm-key is written by "vault kv put secret/apps/crm/crm-key
	// value=…", and that of the tenant acme by "vault kv put secret/apps/crm/tenants/acme/crm-key value=…".
	Prefix string
	// Field is the field of that path with the value. It cannot be used with Path.
	Field string `default:"value"`
	// Path is the path with all secrets: a secret NAME is its field NAME. It takes the place of Prefix and Field.
	//
	// With the path apps/crm, the secret crm-key is written by "vault kv patch secret/apps/crm crm-key=…". The secrets of a
	// tenant or a user are the fields of a path below it, such as apps/crm/tenants/acme.
	Path string

	// Transit has keys that stay in Vault, for get_key. One store of a file may have it.
	Transit *VaultTransit

	// TokenFile is the path of a file with a token, such as a sink of Vault Agent. Its mode must be 0640 or less. A changed
	// file is read again.
	TokenFile string `file:",path"`
	// AppRole is a login with the auth method approle.
	AppRole *VaultAppRole `file:"approle"`
	// JWT is a login with the auth method jwt, by a token that says who the process is.
	JWT *VaultJWT
	// Kubernetes is the same with the auth method kubernetes, as the service account of the process.
	Kubernetes *VaultJWT
	// Identities has the tokens that JWT and Kubernetes may name.
	Identities host.Identities `file:"-"`

	// Timeout is the time of one lookup, with a login if it needs one.
	Timeout time.Duration `default:"10s"`
	// Transport sends requests to the server. If nil, the store uses its own, which requires TLS 1.2 or later for https and
	// ignores the proxies of the environment.
	Transport http.RoundTripper `file:"-"`
	// Clock returns the current time.
	Clock func() time.Time `file:"-"`
}

// VaultAppRole configures a login with the auth method approle.
type VaultAppRole struct {
	// Mount is the mount path of the auth method.
	Mount string `default:"approle"`
	// RoleID is the ID of the role.
	RoleID string `file:",required"`
	// SecretIDFile is the path of a file with the secret ID. Its mode must be 0640 or less. It is read at each login, so the
	// secret ID must allow more than one use.
	SecretIDFile string `file:",required,path"`
}

// VaultJWT configures a login with the auth method jwt or kubernetes.
type VaultJWT struct {
	// Mount is the mount path of the auth method. Without it, jwt or kubernetes.
	Mount string
	// Role is the name of the role.
	Role string `file:",required"`
	// Identity is the name of an item of identities, whose hosts have that of the address. Each login sends a token of it.
	Identity string
	// Audience is the audience of that token, which the role expects.
	Audience string
	// TokenFile is the path of a file with the token. It is read at each login. Without it and identity, the path at which
	// Kubernetes mounts that of the service account.
	TokenFile string `file:",path"`
}

// A ConfigError lists the problems of a [VaultConfig]. Paths are those of members in connectors.yaml, such as approle.role_id.
// An empty path means the store as a whole.
type ConfigError struct{ Problems []problem.Problem }

func (e *ConfigError) Error() string { return fmt.Sprint("vault: ", e.Problems) }

type checker struct{ problem.Collector }

func (k *checker) address(text string, http func(*url.URL) bool) string {
	rule := urlcheck.Rule{
		HTTP: http, PlainHTTP: "which shows secrets and token to the network: use https, or name the host in plain_http of egress", Example: "https://vault.example.com:8200",
	}
	u, err := rule.Parse(text)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = errors.New("has a query: remove it")
	}
	if err != nil {
		k.Wrong("address", "%v", err)
		return ""
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/") + "/v1/"
}

// path checks a path of Vault and returns it escaped.
func (k *checker) path(field, text string) string {
	if text == "" {
		return ""
	}
	steps := strings.Split(strings.Trim(text, "/"), "/")
	for i, step := range steps {
		if step == "" || step == "." || step == ".." || strings.ContainsFunc(step, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
			k.Wrong(field, "%q must be names with a slash between them", host.Printable(text))
			return ""
		}
		steps[i] = url.PathEscape(step)
	}
	return strings.Join(steps, "/")
}

func (k *checker) paths(c *VaultConfig) paths {
	if c.Path != "" && (c.Prefix != "" || c.Field != "") {
		k.Wrong("path", "is for secrets that are fields of one path: leave it out, or prefix and field")
	}
	p := paths{data: k.path("mount", cmp.Or(c.Mount, "secret")) + "/data", shared: c.Path != "", field: cmp.Or(c.Field, "value")}
	if below := k.path("prefix", c.Prefix) + k.path("path", c.Path); below != "" {
		p.data += "/" + below
	}
	return p
}

func (k *checker) transit(c *VaultConfig) *transit {
	if c.Transit == nil {
		return nil
	}
	return &transit{mount: k.path("transit.mount", cmp.Or(c.Transit.Mount, "transit")), keys: memory[transitKey]{ttl: time.Minute, clock: c.Clock}}
}

func (k *checker) login(c *VaultConfig) login {
	var ways []login
	if c.TokenFile != "" {
		ways = append(ways, login{token: func() (string, error) { return readToken(c.TokenFile, "the token file", true) }})
	}
	if a := c.AppRole; a != nil {
		ways = append(ways, login{
			path: "auth/" + k.path("approle.mount", cmp.Or(a.Mount, "approle")) + "/login",
			body: func(context.Context) (any, error) {
				id, err := readToken(a.SecretIDFile, "the secret id file", true)
				return map[string]string{"role_id": a.RoleID, "secret_id": id}, err
			},
		})
	}
	for method, j := range map[string]*VaultJWT{"jwt": c.JWT, "kubernetes": c.Kubernetes} {
		if j != nil {
			ways = append(ways, k.jwt(c, method, j))
		}
	}
	if len(ways) != 1 {
		k.Wrong("", "there must be one of token_file, approle, jwt and kubernetes, which say how to log in")
		return login{}
	}
	return ways[0]
}

// jwt returns the login with a JWT by an auth method, which is the name of the member, too. The token of an identity goes to its hosts only.
func (k *checker) jwt(c *VaultConfig, method string, j *VaultJWT) login {
	token := func(context.Context) (string, error) {
		return readToken(cmp.Or(j.TokenFile, "/var/run/secrets/kubernetes.io/serviceaccount/token"), "the service account's token file", false)
	}
	if j.Identity != "" || j.Audience != "" {
		var hosts []string
		if c.Identities != nil {
			hosts = c.Identities.Hosts(j.Identity, j.Audience)
		}
		server, err := url.Parse(c.Address)
		if err != nil || j.TokenFile != "" || !slices.ContainsFunc(hosts, func(host string) bool { return urlcheck.Names(host, server) }) {
			k.Wrong(method+".identity", "is no item of identities that has this audience for the host of address, or token_file is there, too")
		}
		token = func(ctx context.Context) (string, error) {
			return c.Identities.Identity(ctx, host.IdentityRequest{Name: j.Identity, Audience: j.Audience, Exchange: true})
		}
	}
	return login{
		path: "auth/" + k.path(method+".mount", cmp.Or(j.Mount, method)) + "/login",
		body: func(ctx context.Context) (any, error) {
			text, err := token(ctx)
			return map[string]string{"role": j.Role, "jwt": text}, err
		},
	}
}

// readToken reads a file with one token, and trims white space.
func readToken(name, what string, private bool) (string, error) {
	content, err := readFile(name, what, maxToken, private)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(content))
	if !isToken(token) {
		return "", fmt.Errorf("%s %q must have one token, and nothing else", what, name)
	}
	return token, nil
}

// isToken reports whether a text is one word of printable ASCII, so that it can be the value of a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (k *checker) transport(caFile string) *http.Transport {
	t := &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, // not compressed, so that limits apply to the bytes received
	}
	if caFile == "" {
		return t
	}
	text, err := readFile(caFile, "the file", 1<<20, false)
	if err != nil {
		k.Wrong("ca_file", "%v", err)
		return t
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
		k.Wrong("ca_file", "%q has no certificate in PEM", caFile)
	}
	return t
}
