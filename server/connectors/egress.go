package connectors

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/urlcheck"
)

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

// maxAuthorities limits a file of authorities, in bytes.
const maxAuthorities = 4 << 20

// changeEgress changes an Egress as a member egress says. What the member does not have stays.
func (l *loader) changeEgress(n *node, f *egressFile, path string, e *host.Egress) {
	if n.get("allow") != nil {
		e.Allow = slices.Clone(l.options.Host.Egress.Allow)
	}
	for i, text := range f.Allow {
		prefix, err := parseRange(text)
		if err != nil {
			l.report(n.item("allow", i), fmt.Sprintf("%s.allow[%d]", path, i), "%v", err)
			continue
		}
		e.Allow = append(e.Allow, prefix)
	}
	if n.get("plain_http") != nil {
		e.PlainHTTP = slices.Clone(l.options.Host.Egress.PlainHTTP)
	}
	for i, text := range f.PlainHTTP {
		if _, err := urlcheck.ParseHost(text); err != nil {
			l.report(n.item("plain_http", i), fmt.Sprintf("%s.plain_http[%d]", path, i), "%v", err)
			continue
		}
		e.PlainHTTP = append(e.PlainHTTP, text)
	}
	if f.CAFile != "" {
		config, err := l.authorities(f.CAFile)
		if err != nil {
			l.report(n.get("ca_file").value.Place, path+".ca_file", "%v", err)
		}
		e.TLS = config
	}
	switch proxy, err := parseProxy(f.Proxy); {
	case f.Proxy == "":
	case err != nil:
		l.report(n.get("proxy").value.Place, path+".proxy", "%v", err)
	default:
		e.Proxy = proxy
	}
}

// parseRange parses an address, or a range of addresses in the form of CIDR.
func parseRange(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if addr, single := netip.ParseAddr(text); single == nil && addr.Zone() == "" {
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
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
func (l *loader) authorities(name string) (*tls.Config, error) {
	if config := l.trusted[name]; config != nil {
		return config, nil
	}
	l.set.Files = append(l.set.Files, name)
	text, err := readAuthorities(name)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.options.Host.Egress.TLS != nil {
		config = l.options.Host.Egress.TLS.Clone()
	}
	if config.RootCAs != nil {
		config.RootCAs = config.RootCAs.Clone()
	} else if config.RootCAs, err = x509.SystemCertPool(); err != nil { // a machine without authorities
		config.RootCAs = x509.NewCertPool()
	}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
	}
	l.trusted[name] = config
	return config, nil
}

func readAuthorities(name string) ([]byte, error) {
	text, err := readRegular(name, maxAuthorities)
	switch {
	case err != nil:
		return nil, errors.New("cannot be read: " + cause(err))
	case len(text) > maxAuthorities:
		return nil, fmt.Errorf("is larger than %d MiB: name a file of certificates in PEM", maxAuthorities>>20)
	}
	return text, nil
}
