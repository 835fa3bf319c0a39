package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/answers"
)

// ClientFailure returns an error of a client, or of its transport, without the URL, which may have a secret. For an *http.Transport,
// its text is that of [Failure].
func ClientFailure(transport http.RoundTripper, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, plain := transport.(*http.Transport); plain {
		return Failure(err)
	}
	return err
}

// Failure is [answers.Failure]. Errors of this package keep their text, too.
func Failure(err error) error {
	var proxy *ProxyError
	switch {
	case errors.As(err, new(*AddressError)):
		return err
	case errors.Is(err, ErrPlain):
		return ErrPlain
	case errors.As(err, &proxy):
		return proxy
	}
	return answers.Failure(err)
}

// Kind is the kind of a refused address, as a word for errors.
type Kind string

// Kinds of refused addresses. Policy.AllowPrivate allows the first three, Policy.Allow all but KindZoned and KindInvalid.
const (
	KindLoopback      Kind = "loopback"        // this machine
	KindPrivate       Kind = "private"         // RFC 1918, and unique local addresses, RFC 4193
	KindShared        Kind = "carrier NAT"     // RFC 6598; clouds and VPNs use them as private addresses, too
	KindMetadata      Kind = "cloud metadata"  // answers with the credentials of the machine
	KindLinkLocal     Kind = "link-local"      // RFC 3927, RFC 4291 section 2.5.6
	KindMulticast     Kind = "multicast"       // RFC 5771, RFC 4291 section 2.7
	KindUnspecified   Kind = "unspecified"     // 0.0.0.0/8 and ::, which reach this machine on some systems
	KindBroadcast     Kind = "broadcast"       // RFC 919
	KindDocumentation Kind = "documentation"   // RFC 5737, RFC 3849, RFC 9637
	KindBenchmarking  Kind = "benchmarking"    // RFC 2544, RFC 5180
	KindTranslation   Kind = "local NAT64"     // RFC 8215; a local translator may lead to any address of the network
	KindTunnel        Kind = "tunnel"          // Teredo and the anycast relay of 6to4
	KindReserved      Kind = "reserved"        // reserved by IANA, or not assigned as global unicast
	KindZoned         Kind = "interface-bound" // has a zone ID, so it belongs to an interface of this machine
	KindInvalid       Kind = "malformed"
)

// AddressError is the error for an address that may not be dialled.
type AddressError struct {
	// Host is the requested host name or address, or "" if only an address was checked.
	Host string
	// Addr is the address of Host. It is the zero Addr if a proxy would have looked the host up.
	Addr netip.Addr
	Kind Kind
}

// ErrRefused is found in each [AddressError] with errors.Is.
var ErrRefused = errors.New("the address may not be dialled")

// Is reports whether target is [ErrRefused].
func (e *AddressError) Is(target error) bool { return target == ErrRefused }

// Error returns a text with the host, its address and the kind of the address.
func (e *AddressError) Error() string {
	var text strings.Builder
	switch addr := e.Addr.String(); {
	case !e.Addr.IsValid():
		text.WriteString(cmp.Or(e.Host, `""`))
	case e.Host == "" || e.Host == addr:
		text.WriteString(addr)
	default:
		fmt.Fprintf(&text, "%s leads to %s, which", e.Host, addr)
	}
	article := "a"
	if strings.ContainsRune("aeiou", rune(e.Kind[0])) {
		article = "an"
	}
	fmt.Fprintf(&text, " is %s %s address", article, e.Kind)
	if e.Kind != KindZoned && e.Kind != KindInvalid {
		text.WriteString("; it is dialled only if the operator allows it (egress.allow)")
	}
	return text.String()
}

// refusedRanges has the ranges of refused addresses. The first row with an address determines its kind. They are those of IANA's registries
// of special-purpose addresses (RFC 6890), and the addresses of clouds' metadata services.
var refusedRanges = []struct {
	kind   Kind
	ranges []netip.Prefix
}{
	{KindMetadata, prefixes("169.254.169.254/32")},                                                             // most clouds
	{KindMetadata, prefixes("fd00:ec2::254/128", "169.254.170.2/32", "169.254.170.23/32", "fd00:ec2::23/128")}, // AWS, containers, pods
	{KindMetadata, prefixes("169.254.42.42/32", "fd00:42::42/128")},                                            // Scaleway
	{KindMetadata, prefixes("100.100.100.200/32")},                                                             // Alibaba
	{KindMetadata, prefixes("168.63.129.16/32")},                                                               // Azure; in a range of public addresses
	{KindMetadata, prefixes("192.0.0.192/32")},                                                                 // Oracle
	{KindMetadata, prefixes("fd20:ce::254/128")},                                                               // Google

	{KindUnspecified, prefixes("0.0.0.0/8", "::/128")},
	{KindLoopback, prefixes("127.0.0.0/8", "::1/128")},
	{KindPrivate, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")},
	{KindPrivate, prefixes("fec0::/10")}, // site-local, RFC 3879
	{KindShared, prefixes("100.64.0.0/10")},
	{KindLinkLocal, prefixes("169.254.0.0/16", "fe80::/10")},
	{KindDocumentation, prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")},
	{KindTunnel, prefixes("192.88.99.0/24", "2001::/32")},
	{KindBenchmarking, prefixes("198.18.0.0/15", "2001:2::/48")},
	{KindTranslation, prefixes("64:ff9b:1::/48")},
	{KindMulticast, prefixes("224.0.0.0/4", "ff00::/8")},
	{KindBroadcast, prefixes("255.255.255.255/32")},
	{KindReserved, prefixes("192.0.0.0/24", "240.0.0.0/4", "2001::/23")},
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

var (
	// globalUnicast is the range from which IANA assigns IPv6 addresses. All others are refused: IPv4-compatible addresses
	// (::/96), discard (100::/64), segment routing (5f00::/16), and addresses without a use.
	globalUnicast = netip.MustParsePrefix("2000::/3")

	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // 6to4, RFC 3056
)

// Check returns an *AddressError if addr may not be dialled.
//
// If addr carries an IPv4 address (IPv4-mapped, NAT64, 6to4), that one is checked, because the connection ends there.
func (p Policy) Check(addr netip.Addr) error {
	if kind := p.refuses(addr); kind != "" {
		return &AddressError{Addr: addr, Kind: kind}
	}
	return nil
}

// refuses returns the kind of addr if it is refused, or "".
func (p Policy) refuses(addr netip.Addr) Kind {
	switch {
	case !addr.IsValid():
		return KindInvalid
	case addr.Zone() != "":
		return KindZoned
	}
	addr = addr.Unmap()
	for _, prefix := range p.Allow {
		if prefix = unmapPrefix(prefix); prefix.Contains(addr) && (prefix.IsSingleIP() || !isMetadata(addr)) {
			return ""
		}
	}
	if carried, ok := carriedIPv4(addr); ok {
		return p.refuses(carried)
	}
	kind := classify(addr)
	if p.AllowPrivate && (kind == KindLoopback || kind == KindPrivate || kind == KindShared) {
		return ""
	}
	return kind
}

// classify returns the kind of an address that is not a public one, or "".
func classify(addr netip.Addr) Kind {
	for _, row := range refusedRanges {
		if slices.ContainsFunc(row.ranges, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return row.kind
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return KindReserved
	}
	return ""
}

// isMetadata reports whether addr is that of a metadata service, or carries it.
func isMetadata(addr netip.Addr) bool {
	if carried, ok := carriedIPv4(addr); ok {
		addr = carried
	}
	return classify(addr) == KindMetadata
}

// carriedIPv4 returns the IPv4 address in a NAT64 or 6to4 address.
func carriedIPv4(addr netip.Addr) (netip.Addr, bool) {
	bytes := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(bytes[2:6])), true
	}
	return netip.Addr{}, false
}

// unmapPrefix returns 10.0.0.0/8 for ::ffff:10.0.0.0/104, which is another prefix to netip.Prefix.Contains.
func unmapPrefix(prefix netip.Prefix) netip.Prefix {
	const mappedBits = 96
	if prefix.Addr().Is4In6() && prefix.Bits() >= mappedBits {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix
}
