//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// ed25519Key returns a key for Ed25519, whose seed repeats a character.
func ed25519Key(character string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(character, ed25519.SeedSize)))
}

// keyedAccounts returns the accounts of products whose requests a private key signs, and of those whose JWTs have claims of the request.
func keyedAccounts(t *testing.T) map[string]account {
	t.Helper()
	pkcs1, _, public := keys(t)
	bare := base64.StdEncoding.EncodeToString(testworld.Must(x509.MarshalPKCS8PrivateKey(testworld.Must(rsaKey())(t)))(t))
	const tenancy, user, fingerprint = "ocid1.tenancy.oc1..aaaaaaaaba3p", "ocid1.user.oc1..aaaaaaaat5nv", "20:3b:97:13:55:1c"
	azureKey := base64.StdEncoding.EncodeToString([]byte("a storage account's access key"))
	all := map[string]account{
		"wechat-pay": {
			secrets: one("wechat-pay", pkcs1), set: map[string]string{"your-merchant-id": "1900000109", "YOUR-SERIAL-NUMBER": "5157F09EFDC096DE"},
			api: request("GET https://api.mch.weixin.qq.com/v3/certificates", func(r *http.Request) error { return weChatPay(public, r) }),
		},
		"oracle-cloud": {
			secrets: one("oracle-cloud", pkcs1), set: map[string]string{"your-region": "eu-frankfurt-1", "your-tenancy-ocid": tenancy, "your-user-ocid": user, "your-fingerprint": fingerprint},
			api: request("GET https://identity.eu-frankfurt-1.oraclecloud.com/20160918/regions", func(r *http.Request) error {
				return oracleCloud(public, tenancy+"/"+user+"/"+fingerprint, r)
			}),
		},
		"alipay": {
			secrets: one("alipay", bare), set: one("your-app-id", "2014111111111122"),
			api: request("POST https://openapi.alipay.com/v3/alipay/trade/query", func(r *http.Request) error { return alipay(public, r) }),
		},
		"binance": {
			secrets: map[string]string{"binance-key": "vmPUZE6mv9SD5VNHk4Hl", "binance-private-key": pkcs8(t, ed25519Key("k"))},
			api:     request("GET https://api.binance.com/api/v3/account", sends("X-MBX-APIKEY", "vmPUZE6mv9SD5VNHk4Hl"), binance),
		},
		"azure-blob-storage": {
			secrets: one("azure-blob-storage", azureKey), set: one("your-account", "acmereports"),
			api: request("GET https://acmereports.blob.core.windows.net/", func(r *http.Request) error { return azureStorage("acmereports", azureKey, r) }),
		},
		"ghost": {
			secrets: one("ghost", "b1b5b9c1d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5b6c7d8e9f0a1"),
			set:     map[string]string{"your-site.ghost.io": "acme.ghost.io", "your-key-id": "6748592f4b9b7700010f6564"},
			api:     request("GET https://acme.ghost.io/ghost/api/admin/posts/", ghost),
		},
		"jira-connect": {
			secrets: one("jira-connect", connectSecret), set: map[string]string{"your-site": "acme", "your-app-key": "com.acme.reports"},
			api: request("GET https://acme.atlassian.net/rest/api/3/project/search", func(r *http.Request) error { return atlassianConnect("", r) }),
		},
		"confluence-connect": {
			secrets: one("confluence-connect", connectSecret), set: map[string]string{"your-site": "acme", "your-app-key": "com.acme.reports"},
			api: request("GET https://acme.atlassian.net/wiki/api/v2/spaces", func(r *http.Request) error { return atlassianConnect("/wiki", r) }),
		},
	}
	maps.Copy(all, claimAccounts(t))
	return all
}

// claimAccounts returns the accounts of products whose JWTs name the request, and of one whose client secret is a JWT.
func claimAccounts(t *testing.T) map[string]account {
	t.Helper()
	pkcs1, _, public := keys(t)
	p256 := testworld.Must(p256Key())(t)
	const coinbaseName, fireblocksID = "organizations/a1b2/apiKeys/e5f6", "8e2c6d9a-0f6b-4a1f-9d2e-1c5b7a3f4e60"
	const adsClient, adsTeam, adsKey = "SEARCHADS.27478e71", "SEARCHADS.9c1f0a2b", "bacaebda-e219-41ee"
	return map[string]account{
		"coinbase": {
			secrets: one("coinbase", ecText(t, p256Key)), set: one("your-key-name", coinbaseName),
			api: request("GET https://api.coinbase.com/api/v3/brokerage/accounts", func(r *http.Request) error {
				header, claims, err := jwtOf(r, "Bearer ", "ES256", &p256.PublicKey)
				if err != nil || header["kid"] != coinbaseName || fmt.Sprint(header["nonce"]) == "<nil>" || claims["sub"] != coinbaseName || claims["iss"] != "cdp" ||
					claims["uri"] != r.Method+" "+r.Host+r.URL.Path || seconds(claims, "nbf", "exp") > 120 {
					return fmt.Errorf("header = %v, claims = %v, %w", header, claims, err)
				}
				return nil
			}),
		},
		"fireblocks": {
			secrets: map[string]string{"fireblocks-id": fireblocksID, "fireblocks-key": pkcs1},
			api: request("GET https://api.fireblocks.io/v1/vault/accounts_paged", sends("X-API-Key", fireblocksID), func(r *http.Request) error {
				header, claims, err := jwtOf(r, "Bearer ", "RS256", public)
				body, readErr := io.ReadAll(r.Body)
				sum := sha256.Sum256(body)
				if errors.Join(err, readErr) != nil || claims["sub"] != fireblocksID || claims["uri"] != r.RequestURI || claims["nonce"] == nil ||
					claims["bodyHash"] != hex.EncodeToString(sum[:]) || seconds(claims, "iat", "exp") >= 30 {
					return fmt.Errorf("header = %v, claims = %v, %w", header, claims, err)
				}
				return nil
			}),
		},
		"apple-ads": {
			secrets: one("apple-ads", ecText(t, p256Key)), set: map[string]string{"your-client-id": adsClient, "your-team-id": adsTeam, "your-key-id": adsKey},
			api: tokens("https://appleid.apple.com/auth/oauth2/token", answer, request("GET https://api.ads.apple.com/v1/acls", bearing(apiToken)), func(r *http.Request) error {
				form := r.PostForm
				header, claims, err := verifyJWT(form.Get("client_secret"), "ES256", &p256.PublicKey)
				if err != nil || header["kid"] != adsKey || claims["iss"] != adsTeam || claims["sub"] != adsClient || claims["aud"] != "https://appleid.apple.com" ||
					seconds(claims, "iat", "exp") > 180*24*60*60 || form.Get("client_id") != adsClient || form.Get("scope") != "searchadsorg" || form.Has("client_assertion") {
					return fmt.Errorf("form = %v, header = %v, claims = %v, %w", form, header, claims, err)
				}
				return nil
			}),
		},
	}
}

// jwtOf returns the header and the claims of the JWT in a request's Authorization, behind a word.
func jwtOf(r *http.Request, word, algorithm string, key any) (header, claims map[string]any, err error) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), word)
	if !found {
		return nil, nil, fmt.Errorf("Authorization = %q, want %q in front", r.Header.Get("Authorization"), word)
	}
	return verifyJWT(token, algorithm, key)
}

// verifyJWT returns the header and the claims of a JWT that a key has signed, and that has an end.
func verifyJWT(token, algorithm string, key any) (header, claims map[string]any, err error) {
	body := jose.MapClaims{}
	parsed, err := jose.ParseWithClaims(token, body, func(*jose.Token) (any, error) { return key, nil },
		jose.WithValidMethods([]string{algorithm}), jose.WithExpirationRequired(), jose.WithIssuedAt())
	if err != nil {
		return nil, nil, err
	}
	return parsed.Header, body, nil
}

// seconds returns the time between two claims, and a day if one of them is missing.
func seconds(claims map[string]any, from, to string) int {
	begin, ok := claims[from].(float64)
	end, both := claims[to].(float64)
	if !ok || !both {
		return 24 * 60 * 60
	}
	return int(end - begin)
}

// verifyRSA returns an error unless a key has signed a text with RSASSA-PKCS1-v1_5 and SHA-256. The signature is in base64.
func verifyRSA(public *rsa.PublicKey, text, signature string) error {
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(text))
	if err := rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], raw); err != nil {
		return fmt.Errorf("%q is not what the signature is for: %w", text, err)
	}
	return nil
}

// weChatPay checks the five lines that a merchant signs, and who the merchant is.
func weChatPay(public *rsa.PublicKey, r *http.Request) error {
	p := parameters(r, "WECHATPAY2-SHA256-RSA2048")
	body, err := io.ReadAll(r.Body)
	if err != nil || p["mchid"] != "1900000109" || p["serial_no"] != "5157F09EFDC096DE" || p["nonce_str"] == "" {
		return fmt.Errorf("parameters = %v, %w", p, err)
	}
	return verifyRSA(public, r.Method+"\n"+r.RequestURI+"\n"+p["timestamp"]+"\n"+p["nonce_str"]+"\n"+string(body)+"\n", p["signature"])
}

// alipay checks the parameters of the header, which an application signs with the request.
func alipay(public *rsa.PublicKey, r *http.Request) error {
	rest, found := strings.CutPrefix(r.Header.Get("Authorization"), "ALIPAY-SHA256withRSA ")
	signed, signature, both := strings.Cut(rest, ",sign=")
	body, err := io.ReadAll(r.Body)
	p := parameters(r, "ALIPAY-SHA256withRSA")
	if err != nil || !found || !both || p["app_id"] != "2014111111111122" || p["nonce"] == "" || len(p["timestamp"]) != 13 {
		return fmt.Errorf("Authorization = %q, %w", rest, err)
	}
	return verifyRSA(public, signed+"\n"+r.Method+"\n"+r.RequestURI+"\n"+string(body)+"\n", signature)
}

// oracleCloud checks a signature of draft-cavage-http-signatures-08 over what Oracle demands of a GET, which is no more than five minutes old.
func oracleCloud(public *rsa.PublicKey, keyID string, r *http.Request) error {
	p := parameters(r, "Signature")
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil || time.Since(date).Abs() > 5*time.Minute || p["version"] != "1" || p["keyId"] != keyID || p["algorithm"] != "rsa-sha256" {
		return fmt.Errorf("parameters = %v, Date = %q, %w", p, r.Header.Get("Date"), err)
	}
	var lines []string
	names := strings.Fields(p["headers"])
	for _, name := range names {
		switch name {
		case "(request-target)":
			lines = append(lines, name+": "+strings.ToLower(r.Method)+" "+r.RequestURI)
		case "host":
			lines = append(lines, name+": "+r.Host)
		default:
			lines = append(lines, name+": "+r.Header.Get(name))
		}
	}
	for _, name := range []string{"(request-target)", "date", "host"} {
		if !slices.Contains(names, name) {
			return fmt.Errorf("headers = %q, want %s too", names, name)
		}
	}
	return verifyRSA(public, strings.Join(lines, "\n"), p["signature"])
}

// binance checks the last parameter of the query, which is a signature over what is in front of it.
func binance(r *http.Request) error {
	signed, signature, found := strings.Cut(r.URL.RawQuery, "&signature=")
	text, err := url.QueryUnescape(signature)
	if err != nil || !found {
		return fmt.Errorf("query = %q, %w", r.URL.RawQuery, err)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	public, _ := ed25519Key("k").Public().(ed25519.PublicKey)
	if stamp := r.URL.Query().Get("timestamp"); err != nil || len(stamp) != 13 || !ed25519.Verify(public, []byte(signed), raw) {
		return fmt.Errorf("query = %q, timestamp = %q, %w", r.URL.RawQuery, stamp, err)
	}
	return nil
}

// azureStorage checks an HMAC over the method, eleven headers, those of Azure, and the resource with the parameters of the query.
func azureStorage(account, key string, r *http.Request) error {
	date, err := http.ParseTime(r.Header.Get("X-Ms-Date"))
	if err != nil || time.Since(date).Abs() > 15*time.Minute || r.Header.Get("X-Ms-Version") == "" {
		return fmt.Errorf("header = %v, %w", r.Header, err)
	}
	text := r.Method + "\n"
	for _, name := range strings.Fields("Content-Encoding Content-Language Content-Length Content-MD5 Content-Type Date If-Modified-Since If-Match If-None-Match If-Unmodified-Since Range") {
		text += r.Header.Get(name) + "\n" // a Date would be empty beside x-ms-date
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ms-") {
			text += lower + ":" + r.Header.Get(name) + "\n"
		}
	}
	text += "/" + account + r.URL.EscapedPath()
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		slices.Sort(query[name])
		text += "\n" + strings.ToLower(name) + ":" + strings.Join(query[name], ",")
	}
	raw, err := base64.StdEncoding.DecodeString(key)
	want := "SharedKey " + account + ":" + base64.StdEncoding.EncodeToString(mac(raw, text))
	if got := r.Header.Get("Authorization"); err != nil || got != want {
		return fmt.Errorf("Authorization = %q, want %q for %q, %w", got, want, text, err)
	}
	return nil
}

// ghost checks a JWT of at most five minutes, whose key is the decoded secret.
func ghost(r *http.Request) error {
	key, err := hex.DecodeString("b1b5b9c1d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5b6c7d8e9f0a1")
	if err != nil {
		return err
	}
	header, claims, err := jwtOf(r, "Ghost ", "HS256", key)
	if err != nil || header["kid"] != "6748592f4b9b7700010f6564" || claims["aud"] != "/admin/" || seconds(claims, "iat", "exp") > 300 {
		return fmt.Errorf("header = %v, claims = %v, %w", header, claims, err)
	}
	return nil
}

const connectSecret = "e4-ATHcZMzgBIzXrTjQLFDGhIm3kYQ0a"

// atlassianConnect checks a JWT of an app, with the hash of the request below a base: the method, the path without a slash at its end, and
// the parameters sorted, encoded, and joined by commas where a name has several values.
func atlassianConnect(base string, r *http.Request) error {
	_, claims, err := jwtOf(r, "JWT ", "HS256", []byte(connectSecret))
	if err != nil {
		return err
	}
	path := "/" + strings.Trim(strings.TrimPrefix(r.URL.EscapedPath(), base), "/")
	var terms []string
	query := r.URL.Query()
	delete(query, "jwt")
	for _, name := range slices.Sorted(maps.Keys(query)) {
		var values []string
		for _, value := range slices.Sorted(slices.Values(query[name])) {
			values = append(values, percentEncoded(value))
		}
		terms = append(terms, percentEncoded(name)+"="+strings.Join(values, ","))
	}
	canonical := r.Method + "&" + path + "&" + strings.Join(terms, "&")
	sum := sha256.Sum256([]byte(canonical))
	if claims["qsh"] != hex.EncodeToString(sum[:]) || claims["iss"] != "com.acme.reports" || claims["iat"] == nil {
		return fmt.Errorf("claims = %v, want the hash of %q", claims, canonical)
	}
	return nil
}
