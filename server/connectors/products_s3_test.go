package connectors_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const s3Secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

// s3 is a bucket. As "Authenticating Requests" in the reference of S3's API says, it signs each request anew, and compares.
func s3(w http.ResponseWriter, r *http.Request) {
	if err := verifyS3(r); err != nil {
		http.Error(w, "SignatureDoesNotMatch: "+err.Error(), http.StatusForbidden)
		return
	}
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// verifyS3 returns an error unless the request has the signature of the one user that there is, over all of it.
func verifyS3(r *http.Request) error { return verifyAWS(r, "eu-central-1", "s3") }

// verifyAWS is verifyS3 for any service. Only S3 demands the hash of the body in a header.
func verifyAWS(r *http.Request, region, service string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	stamp, payload := r.Header.Get("X-Amz-Date"), r.Header.Get("X-Amz-Content-Sha256")
	at, err := time.Parse("20060102T150405Z", stamp)
	if err != nil || time.Since(at).Abs() > 15*time.Minute {
		return fmt.Errorf("X-Amz-Date: %s", stamp)
	}
	sum := sha256.Sum256(body)
	if hash := hex.EncodeToString(sum[:]); service != "s3" {
		payload = hash
	} else if payload != hash {
		return fmt.Errorf("X-Amz-Content-Sha256: %s", payload)
	}
	scope := stamp[:8] + "/" + region + "/" + service + "/aws4_request"
	rest, found := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"+scope+", SignedHeaders=")
	names, signature, both := strings.Cut(rest, ", Signature=")
	if !found || !both {
		return fmt.Errorf("Authorization: %s", r.Header.Get("Authorization"))
	}
	signed := strings.Split(names, ";")
	for _, name := range []string{"host", "content-type", "x-amz-content-sha256", "x-amz-date"} {
		if !slices.Contains(signed, name) && (name == "host" || r.Header.Get(name) != "") {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	canonical := r.Method + "\n" + awsEncode(r.URL.Path, "/") + "\n" + canonicalQuery(r.URL) + "\n"
	for _, name := range signed {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		canonical += name + ":" + strings.Join(strings.Fields(value), " ") + "\n"
	}
	digest := sha256.Sum256([]byte(canonical + "\n" + names + "\n" + payload))
	key := []byte("AWS4" + s3Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	if want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(digest[:]))); signature != want {
		return fmt.Errorf("the signature is %s, and that of the canonical request %q is %s", signature, canonical, want)
	}
	return nil
}

// canonicalQuery returns the parameters of a URL, encoded and sorted.
func canonicalQuery(u *url.URL) string {
	var pairs [][2]string
	for name, values := range u.Query() {
		for _, value := range values {
			pairs = append(pairs, [2]string{awsEncode(name, ""), awsEncode(value, "")})
		}
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) })
	var joined []string
	for _, p := range pairs {
		joined = append(joined, p[0]+"="+p[1])
	}
	return strings.Join(joined, "&")
}

// awsEncode escapes all bytes but the unreserved characters of RFC 3986 and those in plain.
func awsEncode(text, plain string) string {
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(unreserved+plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// mac returns the HMAC-SHA256 of a text.
func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
