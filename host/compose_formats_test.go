package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The formats of paths, queries and letters write each byte as their standards say, and nothing else.
func TestFormatsOfEachByte(t *testing.T) {
	const unreserved = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
	all, path, query := "", "", ""
	for c := byte(' '); c <= '~'; c++ {
		all += string(c)
		switch {
		case strings.IndexByte(unreserved+"/", c) >= 0:
			path += string(c)
		default:
			path += "%" + strings.ToUpper(hexOf(c))
		}
		if c != '&' && c != '=' && c != '+' && c != '%' {
			if strings.IndexByte(unreserved, c) >= 0 {
				query += string(c)
			} else {
				query += "%" + strings.ToUpper(hexOf(c))
			}
		}
	}
	for _, c := range []struct{ format, value, want string }{
		{contract.FormatPathPercent, all, path},
		{contract.FormatQuerySorted, strings.NewReplacer("&", "", "=", "", "+", "", "%", "").Replace(all), query + "="},
		{contract.FormatLower, "@AMZ[`amz{É", "@amz[`amz{É"},
		{contract.FormatUpper, "@AMZ[`amz{é", "@AMZ[`AMZ{é"},
		// A % that begins no escape is itself.
		{contract.FormatQuerySorted, "%30%39%41%46%61%66%4a%4A%3c=%2F", "09AFafJJ%3C=%2F"},
		{contract.FormatQuerySorted, "%3%g3", "%253%25g3="},
		{contract.FormatQuerySorted, "%3g", "%253g="},
		{contract.FormatQuerySorted, "%g3", "%25g3="},
		{contract.FormatQuerySorted, "%3:%:3%3/%/3", "%253%3A%25%3A3%253%2F%25%2F3="},
		{contract.FormatQuerySorted, "%3`%`3%3@%@3%3G%G3", "%253%60%25%603%253%40%25%403%253G%25G3="},
		{contract.FormatQuerySorted, "a%4", "a%254="},
		{contract.FormatQuerySorted, "a%", "a%25="},
		{contract.FormatPathReencoded, "%2Fa/b", "/a/b"},
		{contract.FormatPathReencoded, "/%2fa%7e/ü", "//a~/%C3%BC"},
		{contract.FormatPathNormalized, "", "/"},
		{contract.FormatPathNormalized, "/a//b", "/a/b"},
		{contract.FormatPathNormalized, "/a//", "/a/"},
		{contract.FormatPathNormalized, "//a", "/a"},
		{contract.FormatPathNormalized, "/a/../b", "/b"},
		{contract.FormatPathNormalized, "/a/./b", "/a/b"},
		{contract.FormatPathNormalized, "/../../a", "/a"},
		{contract.FormatPathNormalized, "/.a/b..", "/.a/b.."},
	} {
		values, err := json.Marshal(contract.Composition{Values: []abi.Pair{{Name: "v", Value: c.value}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := composed(t, "{v|"+c.format+"}", string(values), nil); got != c.want {
			t.Errorf("%s of %q is %q, want %q", c.format, c.value, got, c.want)
		}
	}
}

func hexOf(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// threats.md 10: a sealed value counts as long as its format may make it, so that no chain of formats fills memory.
func TestFormatSealedValueBounds_threats_10(t *testing.T) {
	for _, format := range []string{contract.FormatPathPercent, contract.FormatPathReencoded, contract.FormatQuerySorted} {
		refuseAll(t, []misuse{{format, func(env contract.Env) (string, error) {
			k := value(env, "to_header")
			for range 20 {
				k = env.Encode(format, k)
			}
			return header("X-Key", k), nil
		}, host.StagePlugin, "too long"}})
	}
}
