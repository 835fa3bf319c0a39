package secretstore

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

const (
	maxCAFile  = 1 << 20
	maxToken   = 16 << 10 // tokens of service accounts can be long
	maxHeaders = 64 << 10

	serviceAccountToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
)

// A ConfigError lists the problems of a [VaultConfig]. Paths are those of members in connectors.yaml, such as approle.role_id.
// An empty path means the store as a whole.
type ConfigError struct{ Problems []problem.Problem }

func (e *ConfigError) Error() string {
	all := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p.String()
	}
	return "vault:" + strings.Join(all, ";")
}

// A checker collects the problems of a configuration.
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
	return &transit{mount: k.path("transit.mount", cmp.Or(c.Transit.Mount, "transit")), keys: memory[transitKey]{ttl: keyTime, clock: c.Clock}}
}

func (k *checker) login(c *VaultConfig) login {
	var ways []login
	if c.Token != "" {
		if !isToken(c.Token) {
			k.Wrong("token", "has characters that no token has")
		}
		ways = append(ways, login{token: func() (string, error) { return c.Token, nil }})
	}
	if c.TokenFile != "" {
		ways = append(ways, login{changes: true, token: func() (string, error) { return readToken(readPrivate, c.TokenFile, "the token file") }})
	}
	if a := c.AppRole; a != nil {
		if !isToken(a.RoleID) || a.SecretIDFile == "" {
			k.Wrong("approle", "needs role_id and secret_id_file")
		}
		ways = append(ways, login{
			path: "auth/" + k.path("approle.mount", cmp.Or(a.Mount, "approle")) + "/login",
			body: func() (any, error) {
				id, err := readToken(readPrivate, a.SecretIDFile, "the secret id file")
				return map[string]string{"role_id": a.RoleID, "secret_id": id}, err
			},
		})
	}
	if n := c.Kubernetes; n != nil {
		if !isToken(n.Role) {
			k.Wrong("kubernetes", "needs role")
		}
		ways = append(ways, login{
			path: "auth/" + k.path("kubernetes.mount", cmp.Or(n.Mount, "kubernetes")) + "/login",
			body: func() (any, error) {
				token, err := readToken(readFile, cmp.Or(n.TokenFile, serviceAccountToken), "the service account's token file")
				return map[string]string{"role": n.Role, "jwt": token}, err
			},
		})
	}
	if len(ways) != 1 {
		k.Wrong("", "there must be one of token_file, approle and kubernetes, which say how to log in")
		return login{}
	}
	return ways[0]
}

// readToken reads a file with one token, and trims white space.
func readToken(read func(name, what string, limit int64) ([]byte, error), name, what string) (string, error) {
	content, err := read(name, what, maxToken)
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
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // so that limits apply to the bytes received
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        time.Minute,
	}
	if caFile == "" {
		return t
	}
	text, err := readFile(caFile, "the file", maxCAFile)
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
