package connectors

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// Settings configures the gateway: the member gateway of the file. See [gateway.Setup] for Hosts and Origins.
type Settings struct {
	// Hosts are the host names at which callers may reach the gateway, with a port if it must be that one. Without them,
	// those of the loopback.
	Hosts []string `file:",host"`
	// Origins are the origins of pages that may call the gateway from a browser, such as https://app.example.com. Without
	// them, none but its own.
	Origins []string `file:",origin"`
	// Consent says where users connect their accounts, for connectors that need the consent of each user.
	Consent gateway.Consent
	// User says who the user of a request is. Without it, requests have no user.
	//
	// Paths of files are absolute or relative to the working directory.
	User identity.Config
	// TLS has the certificate of the listener for callers. Without it, callers use plain HTTP, and a proxy in front has TLS.
	TLS TLS
	// Traces is the URL of a collector for traces, OTLP over HTTP, such as http://localhost:4318/v1/traces.
	Traces string `file:",collector"`
	// AccessLog logs each request of a caller, also those that succeed.
	AccessLog bool `default:"false"`
	// Audit is the log of the uses of credentials, chained by hashes: a file, or stdout.
	Audit *Audit
	// AccessLogUsers logs the ID of the user with each request. It is personal data. It needs AccessLog.
	AccessLogUsers bool `default:"false"`
}

// Audit configures the log of the uses of credentials: each is a line of JSON with a hash over the line before it.
type Audit struct {
	// File is the path of the audit log. Its directory must exist.
	File string `file:",path"`
	// Stdout writes the audit log to stdout, which then has nothing else.
	Stdout bool `default:"false"`
	// OnError says what happens to requests while the audit log cannot be written.
	//
	// It is [AuditRefuse] or [AuditContinue]. Empty means AuditRefuse.
	OnError string `default:"refuse"`
}

// Values of OnError in [Audit].
const (
	// AuditRefuse refuses requests: no credential is used without a line.
	AuditRefuse = "refuse"
	// AuditContinue answers requests. Those whose lines do not fit into memory are counted only.
	AuditContinue = "continue"
)

// TLS holds the paths of a certificate with its chain, and of its key, each in PEM. The zero value means plain HTTP. The paths
// are absolute or relative to the working directory.
type TLS struct {
	// Cert is the path of the certificate with its chain, in PEM.
	Cert string `file:",required,path"`
	// Key is the path of the private key, in PEM. It may not be open to everybody on the machine.
	Key string `file:",required,path"`
}

// HasUsers reports whether requests have users, by sessions or by headers of a proxy.
func (s Settings) HasUsers() bool { return s.User.Mode != "" && s.User.Mode != identity.ModeNone }

func (d *definer) settings(root *node) Settings {
	m, s := root.get("gateway"), &d.file.Gateway
	if m == nil {
		return *s
	}
	n := m.value
	for i, host := range s.Hosts {
		if strings.ContainsAny(host, "/ @*") {
			d.report(n.place(fmt.Sprintf("hosts[%d]", i)), fmt.Sprintf("gateway.hosts[%d]", i), "%s", texts["host"].wrong())
		}
	}
	for i, origin := range s.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.Contains(origin, "*") {
			d.report(n.place(fmt.Sprintf("origins[%d]", i)), fmt.Sprintf("gateway.origins[%d]", i), "%s", texts["origin"].wrong())
		}
	}
	if s.Traces != "" {
		if u, err := (urlcheck.Rule{AllowHTTP: true}).Parse(s.Traces); err != nil || u.Path == "" {
			d.report(n.get("traces").value.Place, "gateway.traces", "%s", texts["collector"].wrong())
		}
	}
	if audit := n.get("audit"); audit != nil && s.Audit != nil {
		switch {
		case s.Audit.Stdout == (s.Audit.File != ""):
			d.report(audit.value.Place, "gateway.audit", "has either file, the path of a file, or stdout: true")
		case s.Audit.OnError != "" && !slices.Contains(rules["gateway.audit.on_error"].values, s.Audit.OnError):
			d.report(audit.value.get("on_error").value.Place, "gateway.audit.on_error", "is neither %s nor %s", AuditRefuse, AuditContinue)
		}
	}
	if s.AccessLogUsers && !s.AccessLog {
		d.report(n.get("access_log_users").value.Place, "gateway.access_log_users", "has no effect without access_log: true")
	}
	if consent := n.get("consent"); consent != nil {
		for _, p := range s.Consent.Check(d.set.Egress.AllowHTTP) {
			d.report(consent.value.get(p.Path).value.Place, "gateway.consent."+p.Path, "%s", p.Message)
		}
		if u, err := url.Parse(s.Consent.URL); err == nil && u.Host != "" && len(s.Hosts) > 0 && !slices.ContainsFunc(s.Hosts, func(name string) bool {
			return strings.EqualFold(name, u.Host) || strings.EqualFold(name, u.Hostname())
		}) {
			d.report(consent.value.get("url").value.Place, "gateway.consent.url", "is at a host that gateway.hosts does not have, so that the gateway would refuse browsers that come back: add %s to hosts", u.Host)
		}
	}
	if user := n.get("user"); user != nil && user.value.kind == object {
		d.identity(user.value)
	}
	return *s
}

// identity sets the defaults of the member gateway.user and checks it.
func (d *definer) identity(n *node) {
	c := &d.file.Gateway.User
	if jwt := n.get("jwt"); c.JWT != nil && jwt.value.get("bearer") == nil {
		c.JWT.Bearer = jwt.value.get("cookie") == nil
	}
	if c.Header != nil && n.get("header").value.get("required") == nil {
		c.Header.Required = true
	}
	for _, p := range c.Check(d.set.Egress.AllowsHTTP) {
		if n, where, _ := n.locate(p.Path); len(d.suggestions[n]) == 0 { // otherwise it may have the missing member under a misspelt name
			d.report(where, "gateway.user."+p.Path, "%s", p.Message)
		}
	}
}

// An egressFile is the member egress of the file or of a connector.
type egressFile struct {
	// Allow are addresses, or ranges such as 10.20.0.0/16, that may be dialled beside public ones, also by a name. A cloud's
	// metadata address, such as 169.254.169.254, must be named itself: no range allows it.
	Allow []string `file:",range"`
	// CAFile is the path of a file of certificates in PEM, of authorities that are trusted beside the system's.
	CAFile string `file:",path"`
	// Proxy is the URL of the proxy of all connections, http, https, socks5 or socks5h, without user and password; or none. It
	// looks up names itself, and has to refuse your network's. The environment's are ignored.
	Proxy string `file:",proxy"`
	// PlainHTTP are hosts whose URLs may be of plain http, such as keycloak:8080 (any port, if there is none). Their addresses
	// have to be in Allow, too. The file's is for issuers of sessions and Vault, too.
	PlainHTTP []string `file:",plainhost"`
}

// orName is the end of the error for plain http.
const orName = ", or name the host in plain_http of egress"

const maxAuthorities = 4 << 20 // bytes of a file of authorities

// changeEgress changes an Egress as a member egress says. What the member does not have stays.
func (d *definer) changeEgress(n *node, f *egressFile, path string, e *host.Egress) {
	if n.get("allow") != nil {
		e.Allow = slices.Clone(d.options.Host.Egress.Allow)
	}
	for i, text := range f.Allow {
		prefix, err := parseRange(text)
		if err != nil {
			d.report(n.place(fmt.Sprintf("allow[%d]", i)), fmt.Sprintf("%s.allow[%d]", path, i), "%v", err)
			continue
		}
		e.Allow = append(e.Allow, prefix)
	}
	if n.get("plain_http") != nil {
		e.PlainHTTP = slices.Clone(d.options.Host.Egress.PlainHTTP)
	}
	for i, text := range f.PlainHTTP {
		if _, err := urlcheck.ParseHost(text); err != nil {
			d.report(n.place(fmt.Sprintf("plain_http[%d]", i)), fmt.Sprintf("%s.plain_http[%d]", path, i), "%v", err)
			continue
		}
		e.PlainHTTP = append(e.PlainHTTP, text)
	}
	if f.CAFile != "" {
		config, err := d.authorities(f.CAFile)
		if err != nil {
			d.report(n.get("ca_file").value.Place, path+".ca_file", "%v", err)
		}
		e.TLS = config
	}
	switch proxy, err := parseProxy(f.Proxy); {
	case f.Proxy == "":
	case err != nil:
		d.report(n.get("proxy").value.Place, path+".proxy", "%v", err)
	default:
		e.Proxy = proxy
	}
}

// parseRange parses an address, or a range of addresses in the form of CIDR.
func parseRange(text string) (netip.Prefix, error) {
	prefix, err := urlcheck.Range(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New(texts["range"].wrong() + ": the address that is dialled is checked, not a name")
	case prefix != prefix.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits after its length: write %s for the range, or %s for the address", prefix.Masked(), prefix.Addr())
	case prefix.Bits() == 0:
		return netip.Prefix{}, errors.New("is every address there is: name the ranges of the APIs")
	}
	return prefix, nil
}

// parseProxy parses the URL of a proxy. It returns nil for none, with which a connector uses none although the file has one.
func parseProxy(text string) (*url.URL, error) {
	if text == "none" {
		return nil, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return nil, errors.New(texts["proxy"].wrong())
	case u.User != nil:
		return nil, errors.New("has a credential, which would stand in the file: name a proxy that asks for none")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h":
		return nil, errors.New("has another scheme than http, https, socks5 or socks5h")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("has more than scheme, host and port")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// authorities returns a TLS configuration with the authorities of a file beside those of the options, or of the system, once for each file.
func (d *definer) authorities(name string) (*tls.Config, error) {
	if config := d.trusted[name]; config != nil {
		return config, nil
	}
	d.set.Files = append(d.set.Files, name)
	text, err := readAuthorities(name)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.options.Host.Egress.TLS != nil {
		config = d.options.Host.Egress.TLS.Clone()
	}
	if config.RootCAs != nil {
		config.RootCAs = config.RootCAs.Clone()
	} else if config.RootCAs, err = x509.SystemCertPool(); err != nil { // a machine without authorities
		config.RootCAs = x509.NewCertPool()
	}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
	}
	d.trusted[name] = config
	return config, nil
}

func readAuthorities(name string) ([]byte, error) {
	text, err := files.ReadRegular(name, maxAuthorities)
	switch {
	case err != nil:
		return nil, errors.New("cannot be read: " + cause(err))
	case len(text) > maxAuthorities:
		return nil, fmt.Errorf("is larger than %d MiB: name a file of certificates in PEM", maxAuthorities>>20)
	}
	return text, nil
}
