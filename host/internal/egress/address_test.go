package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// Addresses that are not public are refused with their kind. threats.md 23
func TestCheck(t *testing.T) {
	const public = Kind("")
	for _, tt := range []struct {
		want  Kind
		addrs string
	}{
		{public, "8.8.8.8 1.1.1.1 93.184.216.34 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0"},
		{public, "192.167.255.255 223.255.255.255 2606:4700:4700::1111 2a00:1450:4001::1 2001:200::1"},
		{KindLoopback, "127.0.0.1 127.255.255.254 ::1"},
		{KindPrivate, "10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.1.1 fc00::1 fd12:3456:789a::1 fec0::1"},
		{KindShared, "100.64.0.1 100.127.255.255"},
		{KindMetadata, "169.254.169.254 169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd00:ec2::23"},
		{KindMetadata, "169.254.170.23 169.254.42.42 fd00:42::42 fd20:ce::254"},
		{KindLinkLocal, "169.254.0.1 fe80::1 febf::1"},
		{KindMulticast, "224.0.0.1 239.255.255.250 ff02::1"},
		{KindUnspecified, "0.0.0.0 0.1.2.3 ::"},
		{KindBroadcast, "255.255.255.255"},
		{KindDocumentation, "192.0.2.1 198.51.100.7 203.0.113.9 2001:db8::1 3fff::1"},
		{KindBenchmarking, "198.18.0.1 198.19.255.255 2001:2::1"},
		{KindReserved, "192.0.0.8 240.0.0.1 254.1.2.3"},
		{KindReserved, "100::1 5f00::1 2001:10::1 4000::1"},                   // discard, segment routing, ORCHID, not assigned
		{KindReserved, "::8.8.8.8 ::127.0.0.1"},                               // IPv4-compatible
		{KindReserved, "::ffff:0:8.8.8.8"},                                    // IPv4-translated, RFC 2765
		{KindTunnel, "192.88.99.1 2001::1"},                                   // the latter is Teredo
		{KindTranslation, "64:ff9b:1::8.8.8.8"},                               // local NAT64
		{KindZoned, "fe80::1%eth0 ::1%lo 2606:4700::1%1 ::ffff:8.8.8.8%eth0"}, // interfaces

		// The address that another one carries counts.
		{public, "::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1"},
		{KindLoopback, "::ffff:127.0.0.1 2002:7f00:1::1"},
		{KindMetadata, "::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe"},
		{KindPrivate, "::ffff:10.1.2.3 64:ff9b::10.0.0.1 2002:c0a8:101::"},
	} {
		for addr := range strings.FieldsSeq(tt.addrs) {
			t.Run(addr, func(t *testing.T) { wantKind(t, Policy{}.Check(netip.MustParseAddr(addr)), tt.want) })
		}
	}
	t.Run("zero", func(t *testing.T) { wantKind(t, Policy{}.Check(netip.Addr{}), KindInvalid) })
}

func wantKind(t *testing.T, err error, want Kind) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	refusal, ok := errors.AsType[*AddressError](err)
	if !ok {
		t.Fatalf("error is %v, want an AddressError of kind %q", err, want)
	}
	if refusal.Kind != want {
		t.Errorf("kind is %q, want %q", refusal.Kind, want)
	}
	if !errors.Is(err, ErrRefused) || errors.Is(err, ErrPlain) {
		t.Errorf("the error is not that of a refused address alone: %v", err)
	}
}

func TestCheckExceptions(t *testing.T) {
	dev := Policy{AllowPrivate: true}
	allow := func(texts ...string) Policy { return Policy{Allow: prefixes(texts...)} }
	for _, tt := range []struct {
		name   string
		policy Policy
		addr   string
		want   Kind
	}{
		{"private allowed: loopback", dev, "127.0.0.1", ""},
		{"private allowed: loopback, IPv6", dev, "::1", ""},
		{"private allowed: private", dev, "192.168.0.1", ""},
		{"private allowed: unique local", dev, "fd00::1", ""},
		{"private allowed: carrier NAT", dev, "100.64.0.1", ""},
		{"private allowed: mapped", dev, "::ffff:127.0.0.1", ""},
		{"private allowed: through NAT64", dev, "64:ff9b::10.0.0.1", ""},
		{"private allowed: not metadata", dev, "169.254.169.254", KindMetadata},
		{"private allowed: not metadata among unique local", dev, "fd00:ec2::254", KindMetadata},
		{"private allowed: not metadata of pods", dev, "fd00:ec2::23", KindMetadata},
		{"private allowed: not metadata among carrier NAT", dev, "100.100.100.200", KindMetadata},
		{"private allowed: not link-local", dev, "169.254.1.1", KindLinkLocal},
		{"private allowed: not unspecified", dev, "0.0.0.0", KindUnspecified},
		{"private allowed: not zoned", dev, "::1%lo", KindZoned},
		{"a prefix: inside", allow("10.1.0.0/16"), "10.1.2.3", ""},
		{"a prefix: mapped address", allow("10.1.0.0/16"), "::ffff:10.1.2.3", ""},
		{"a prefix: written in mapped form", allow("::ffff:10.1.0.0/112"), "10.1.2.3", ""},
		{"a prefix: all of the mapped form", allow("::ffff:0:0/96"), "10.1.2.3", ""},
		{"a prefix: one address", allow("fd00::1/128"), "fd00::2", KindPrivate},
		{"a prefix: through NAT64", allow("10.1.0.0/16"), "64:ff9b::10.1.2.3", ""},
		{"a prefix: outside", allow("10.1.0.0/16"), "10.2.0.1", KindPrivate},
		{"two prefixes: second", allow("10.1.0.0/16", "fd00::/8"), "fd00::1", ""},
		{"metadata by name", allow("169.254.169.254/32"), "169.254.169.254", ""},
		{"metadata by name, through NAT64", allow("169.254.169.254/32"), "64:ff9b::169.254.169.254", ""},
		{"not metadata by a range", allow("169.254.0.0/16", "0.0.0.0/0"), "169.254.169.254", KindMetadata},
		{"not metadata by a range, IPv6", allow("fd00::/8", "::/0"), "fd00:ec2::254", KindMetadata},
		{"not metadata by a range of NAT64", allow("64:ff9b::/96", "0.0.0.0/0"), "64:ff9b::169.254.169.254", KindMetadata},
		{"not metadata by a range of 6to4", allow("2002::/16"), "2002:a9fe:a9fe::1", KindMetadata},
		{"a range: its other addresses", allow("169.254.0.0/16"), "169.254.1.1", ""},
		{"everything: not zoned", allow("::/0"), "fe80::1%eth0", KindZoned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantKind(t, tt.policy.Check(netip.MustParseAddr(tt.addr)), tt.want)
		})
	}
}

func TestAddressErrorText(t *testing.T) {
	const allow = "; it is dialled only if the operator allows it (egress.allow)"
	addr := netip.MustParseAddr("10.0.0.1")
	for _, tt := range []struct {
		name string
		err  AddressError
		want string
	}{
		{"name", AddressError{"login.example.com", addr, KindPrivate}, "login.example.com leads to 10.0.0.1, which is a private address" + allow},
		{"address", AddressError{"10.0.0.1", addr, KindPrivate}, "10.0.0.1 is a private address" + allow},
		{"no host", AddressError{"", addr, KindPrivate}, "10.0.0.1 is a private address" + allow},
		{"vowel", AddressError{"", netip.IPv4Unspecified(), KindUnspecified}, "0.0.0.0 is an unspecified address" + allow},
		{"by name alone", AddressError{"localhost", netip.Addr{}, KindLoopback}, "localhost is a loopback address" + allow},
		{"cannot be allowed", AddressError{"", netip.MustParseAddr("fe80::1%eth0"), KindZoned}, "fe80::1%eth0 is an interface-bound address"},
		{"nothing", AddressError{Kind: KindInvalid}, `"" is a malformed address`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// FuzzCheck checks that a refused IPv4 address is also refused in every IPv6 form, that an IPv4-mapped address is
// treated as the IPv4 address, and that an address with a zone is refused.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8", "0.0.0.0", "255.255.255.255"} {
		four := netip.MustParseAddr(seed).As4()
		f.Add(four[:], false)
		f.Add(four[:], true)
	}
	six := netip.MustParseAddr("64:ff9b::7f00:1").As16()
	f.Add(six[:], false)
	f.Fuzz(func(t *testing.T, bytes []byte, dev bool) {
		policy := Policy{AllowPrivate: dev}
		addr, ok := netip.AddrFromSlice(bytes)
		if !ok {
			return
		}
		err := policy.Check(addr)
		if addr.WithZone("eth0").Zone() != "" && policy.Check(addr.WithZone("eth0")) == nil {
			t.Errorf("%s is allowed with a zone", addr)
		}
		if !addr.Is4() {
			return
		}
		four := addr.As4()
		mapped := netip.AddrFrom16(addr.As16())
		if (policy.Check(mapped) == nil) != (err == nil) {
			t.Errorf("%s: %v, but mapped: %v", addr, err, policy.Check(mapped))
		}
		if err == nil {
			return
		}
		for _, form := range []struct {
			prefix string
			at     int
		}{
			{"::", 12}, {"64:ff9b::", 12}, {"64:ff9b:1::", 12}, {"2002::", 2}, {"2001::", 12}, {"::ffff:0:0:0", 12},
		} {
			bytes := netip.MustParseAddr(form.prefix).As16()
			copy(bytes[form.at:], four[:])
			if six := netip.AddrFrom16(bytes); policy.Check(six) == nil {
				// ::0.0.0.1 is ::1, which is allowed if loopback is.
				if dev && six == netip.IPv6Loopback() {
					continue
				}
				t.Errorf("%s is refused, %s is allowed", addr, six)
			}
		}
	})
}
