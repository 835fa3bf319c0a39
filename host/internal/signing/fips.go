package signing

import (
	"crypto/fips140"
	"fmt"
	"regexp"
)

// weak matches the names of algorithms with MD5 or SHA-1, such as md5, SHA-1, HS1 and HMAC-SHA1.
var weak = regexp.MustCompile(`(?i)^(MD5|([A-Z]+-)?SHA-?1|[HR]S1)$`)

// CheckFIPS returns an error if the process runs with GODEBUG=fips140=only, and an algorithm is not allowed then.
func CheckFIPS(algorithm string) error {
	if fips140.Enforced() && weak.MatchString(algorithm) {
		return fmt.Errorf("%s is not allowed with fips140=only: SHA-256 and longer hashes are", algorithm)
	}
	return nil
}

// checkLength returns a [*KeyError] for a key of an HMAC that is too short for fips140=only.
func checkLength(algorithm string, key []byte) error {
	const minLength = 14 // bytes, 112 bits (SP 800-131A)
	if fips140.Enforced() && len(key) < minLength {
		return &KeyError{algorithm, fmt.Sprintf("is shorter than %d bytes, which is not allowed with fips140=only", minLength)}
	}
	return nil
}
