package testworld

// HostSpellings returns texts that somebody may put in place of a host, or of a label of one, to reach another: addresses of the inside in
// their forms, and ways out of a label.
func HostSpellings() []string {
	return []string{
		"127.0.0.1", "127.1", "127.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0x7f.0.0.0x1", "0177.0.0.01", "017700000001", "0x7f.1",
		"[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::10.0.0.1]", "[fe80::1%25eth0]", "[fd00:ec2::254]",
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "0.0.0.0", "0", "169.254.169.254", "[::ffff:a9fe:a9fe]", "2852039166", "metadata",
		"metadata.google.internal", "localhost", "LOCALHOST", "localhost.", "a.localhost", "ｌocalhost", "local\u00adhost", "127.0.0.1\u200b",
		"１２７.0.0.１", "127。0。0。1", "127｡0｡0｡1", "①②⑦.0.0.①", "１６９.２５４.１６９.２５４", "evil.example", "evil.example/", "evil.example#", "evil.example?",
		`evil.example\`, "evil.example:443/", "acme@evil.example", "acme:x@evil.example/", "evil.example%2f", "evil.example%00", "evil.example%23.",
		"evil.example\t", "evil.example\r\nHost: x", " evil.example", "evil.example/.", "..", ".", "", "a.b", "a..b", "xn--evil", "xn--80ak6aa92e",
		"acme.", "-acme",
	}
}
