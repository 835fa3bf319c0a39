package egress

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Kind says why an address is refused. It is also the word that an error uses.
type Kind string

// The kinds of addresses that are refused. Policy.AllowPrivate lets the first three through, Policy.Allow all but
// KindZoned and KindInvalid.
const (
	KindLoopback      Kind = "loopback"        // this machine
	KindPrivate       Kind = "private"         // RFC 1918, and unique local addresses, RFC 4193
	KindShared        Kind = "carrier NAT"     // RFC 6598, which clouds and VPNs use as private addresses too
	KindMetadata      Kind = "cloud metadata"  // gives a machine's credentials to whoever asks
	KindLinkLocal     Kind = "link-local"      // RFC 3927, RFC 4291 section 2.5.6
	KindMulticast     Kind = "multicast"       // RFC 5771, RFC 4291 section 2.7
	KindUnspecified   Kind = "unspecified"     // 0.0.0.0/8 and ::, which reach this machine on some systems
	KindBroadcast     Kind = "broadcast"       // RFC 919
	KindDocumentation Kind = "documentation"   // RFC 5737, RFC 3849, RFC 9637
	KindBenchmarking  Kind = "benchmarking"    // RFC 2544, RFC 5180
	KindTranslation   Kind = "local NAT64"     // RFC 8215: a translator of this network, which may lead anywhere in it
	KindTunnel        Kind = "tunnel"          // Teredo and the anycast relay of 6to4
	KindReserved      Kind = "reserved"        // by IANA, or not given out as global unicast
	KindZoned         Kind = "interface-bound" // has a zone id, so it belongs to one interface of this machine
	KindInvalid       Kind = "malformed"
)

// AddressError says that an address may not be dialled.
type AddressError struct {
	Host string     // the host name or address that was asked for; empty when only an address was checked
	Addr netip.Addr // the address it stands for; the zero Addr when a proxy would have looked it up
	Kind Kind
}

// Error names the host, its address and the kind of the address.
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
		text.WriteString("; it is dialled only if the operator allows it")
	}
	return text.String()
}

// block is a range of addresses and why it is refused.
type block struct {
	prefix netip.Prefix
	kind   Kind
}

// blocks is read from the top: the first that holds an address decides. The ranges are those of IANA's registries of
// special-purpose addresses (RFC 6890), and the addresses at which clouds answer their own machines.
var blocks = []block{
	{netip.MustParsePrefix("169.254.169.254/32"), KindMetadata}, // most clouds
	{netip.MustParsePrefix("169.254.170.2/32"), KindMetadata},   // AWS, containers
	{netip.MustParsePrefix("169.254.170.23/32"), KindMetadata},  // AWS, pods
	{netip.MustParsePrefix("169.254.42.42/32"), KindMetadata},   // Scaleway
	{netip.MustParsePrefix("100.100.100.200/32"), KindMetadata}, // Alibaba
	{netip.MustParsePrefix("168.63.129.16/32"), KindMetadata},   // Azure; a public address by its number
	{netip.MustParsePrefix("192.0.0.192/32"), KindMetadata},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::254/128"), KindMetadata},  // AWS
	{netip.MustParsePrefix("fd00:ec2::23/128"), KindMetadata},   // AWS, pods
	{netip.MustParsePrefix("fd20:ce::254/128"), KindMetadata},   // Google
	{netip.MustParsePrefix("fd00:42::42/128"), KindMetadata},    // Scaleway

	{netip.MustParsePrefix("0.0.0.0/8"), KindUnspecified},
	{netip.MustParsePrefix("10.0.0.0/8"), KindPrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), KindShared},
	{netip.MustParsePrefix("127.0.0.0/8"), KindLoopback},
	{netip.MustParsePrefix("169.254.0.0/16"), KindLinkLocal},
	{netip.MustParsePrefix("172.16.0.0/12"), KindPrivate},
	{netip.MustParsePrefix("192.0.0.0/24"), KindReserved},
	{netip.MustParsePrefix("192.0.2.0/24"), KindDocumentation},
	{netip.MustParsePrefix("192.88.99.0/24"), KindTunnel},
	{netip.MustParsePrefix("192.168.0.0/16"), KindPrivate},
	{netip.MustParsePrefix("198.18.0.0/15"), KindBenchmarking},
	{netip.MustParsePrefix("198.51.100.0/24"), KindDocumentation},
	{netip.MustParsePrefix("203.0.113.0/24"), KindDocumentation},
	{netip.MustParsePrefix("224.0.0.0/4"), KindMulticast},
	{netip.MustParsePrefix("255.255.255.255/32"), KindBroadcast},
	{netip.MustParsePrefix("240.0.0.0/4"), KindReserved},

	{netip.MustParsePrefix("::/128"), KindUnspecified},
	{netip.MustParsePrefix("::1/128"), KindLoopback},
	{netip.MustParsePrefix("64:ff9b:1::/48"), KindTranslation},
	{netip.MustParsePrefix("2001::/32"), KindTunnel},
	{netip.MustParsePrefix("2001:2::/48"), KindBenchmarking},
	{netip.MustParsePrefix("2001::/23"), KindReserved},
	{netip.MustParsePrefix("2001:db8::/32"), KindDocumentation},
	{netip.MustParsePrefix("3fff::/20"), KindDocumentation},
	{netip.MustParsePrefix("fc00::/7"), KindPrivate},
	{netip.MustParsePrefix("fe80::/10"), KindLinkLocal},
	{netip.MustParsePrefix("fec0::/10"), KindPrivate}, // site-local, RFC 3879
	{netip.MustParsePrefix("ff00::/8"), KindMulticast},
}

var (
	// globalUnicast is all that IANA gives out of IPv6. The rest is refused, whatever it is: IPv4-compatible addresses
	// (::/96), discard (100::/64), segment routing (5f00::/16), and what has no use yet.
	globalUnicast = netip.MustParsePrefix("2000::/3")

	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour = netip.MustParsePrefix("2002::/16")    // 6to4, RFC 3056
)

// Check says whether addr may be dialled. The error is an *AddressError.
//
// Of addresses that carry an IPv4 address (IPv4-mapped, NAT64, 6to4) it is the carried one that counts, because it is
// where the connection ends.
func (p Policy) Check(addr netip.Addr) error {
	if kind := p.refuses(addr); kind != "" {
		return &AddressError{Addr: addr, Kind: kind}
	}
	return nil
}

// refuses returns the kind for which addr is refused, or "".
func (p Policy) refuses(addr netip.Addr) Kind {
	switch {
	case !addr.IsValid():
		return KindInvalid
	case addr.Zone() != "":
		return KindZoned
	}
	addr = addr.Unmap()
	for _, prefix := range p.Allow {
		if unmapPrefix(prefix).Contains(addr) {
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
	for _, b := range blocks {
		if b.prefix.Contains(addr) {
			return b.kind
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return KindReserved
	}
	return ""
}

// carriedIPv4 takes the IPv4 address out of a NAT64 or 6to4 address.
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

// unmapPrefix makes ::ffff:10.0.0.0/104 what its author meant, 10.0.0.0/8: Contains takes the two for different.
func unmapPrefix(prefix netip.Prefix) netip.Prefix {
	const mappedBits = 96
	if prefix.Addr().Is4In6() && prefix.Bits() >= mappedBits {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix
}
