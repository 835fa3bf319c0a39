package main

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
)

// server is an API that wants HTTP Digest, RFC 7616.
type server struct {
	t *testing.T
	// user, password and realm are those of its only account.
	user, password, realm string
	// algorithm, qop and opaque are the parameters of the challenge. Empty ones are left out. more is appended to it.
	algorithm, qop, opaque, more string
	// offers are challenges that stand before its own.
	offers []string
	// next reports whether each answer has a nextnonce.
	next bool
	// constant is the nonce of all challenges, if it is not empty.
	constant string

	nonces int
	// counts has the last nc of each nonce that it has issued.
	counts map[string]string
	// seen are the credentials of all requests, as parameters; nil for a request without.
	seen []map[string]string
}

func newServer(t *testing.T, algorithm, qop string) *server {
	return &server{
		t: t, user: "Mufasa", password: "the password of a lion", realm: "savannah", algorithm: algorithm, qop: qop,
		opaque: "an opaque text", counts: map[string]string{},
	}
}

// nonce returns a new nonce.
func (s *server) nonce() string {
	if s.constant != "" {
		s.counts[s.constant] = "00000000"
		return s.constant
	}
	s.nonces++
	nonce := fmt.Sprintf("nonce/%d+==", s.nonces)
	s.counts[nonce] = "00000000"
	return nonce
}

// forget makes the server refuse all nonces so far.
func (s *server) forget() { s.counts = map[string]string{} }

// answer is the server as hosttest.Answer.
func (s *server) answer(r *http.Request) (*http.Response, error) {
	parameters := read(r.Header.Get("Authorization"))
	s.seen = append(s.seen, parameters)
	stale := false
	if parameters != nil {
		last, found := s.counts[parameters["nonce"]]
		stale = !found
		if found && s.verify(r, parameters, last) {
			s.counts[parameters["nonce"]] = parameters["nc"]
			response, err := hosttest.JSON(200, `{"in":true}`)(r)
			if s.next {
				response.Header.Set("Authentication-Info", `rspauth="0", nextnonce=`+quoted(s.nonce()))
			}
			return response, err
		}
	}
	response, err := hosttest.JSON(401, "{}")(r)
	response.Header["Www-Authenticate"] = append(append([]string{}, s.offers...), s.challenge(stale))
	return response, err
}

// challenge returns a challenge with a new nonce.
func (s *server) challenge(stale bool) string {
	challenge := "Digest realm=" + quoted(s.realm) + ", nonce=" + quoted(s.nonce())
	for name, value := range map[string]string{"algorithm": s.algorithm, "qop": quoted(s.qop), "opaque": quoted(s.opaque)} {
		if value != "" && value != `""` {
			challenge += ", " + name + "=" + value
		}
	}
	if stale {
		challenge += ", stale=TRUE"
	}
	return challenge + s.more
}

// verify reports whether the credentials of a request are right. nc must be above last.
func (s *server) verify(r *http.Request, p map[string]string, last string) bool {
	h := hashOf(s.algorithm)
	user, star := p["username"], p["username*"]
	switch {
	case p["userhash"] == "true":
		if user != h(s.user+":"+s.realm) {
			return false
		}
	case star != "":
		text, found := strings.CutPrefix(star, "UTF-8''")
		user, err := url.PathUnescape(text)
		if err != nil || !found || user != s.user || p["username"] != "" {
			return false
		}
	case user != s.user:
		return false
	}
	a1 := h(s.user + ":" + s.realm + ":" + s.password)
	if strings.HasSuffix(s.algorithm, "-sess") {
		a1 = h(a1 + ":" + p["nonce"] + ":" + p["cnonce"])
	}
	a2 := r.Method + ":" + r.URL.RequestURI()
	if p["qop"] == "auth-int" {
		body := []byte(nil)
		if r.Body != nil {
			body, _ = io.ReadAll(r.Body)
		}
		a2 += ":" + h(string(body))
	}
	count := ""
	if s.qop != "" {
		count = p["nc"] + ":" + p["cnonce"] + ":" + p["qop"] + ":"
		if len(p["nc"]) != len(last) || p["nc"] <= last || len(p["cnonce"]) < 16 || !strings.Contains(s.qop, p["qop"]) || p["qop"] == "" {
			return false
		}
	}
	_, algorithm := p["algorithm"]
	_, opaque := p["opaque"]
	return algorithm == (s.algorithm != "") && opaque == (s.opaque != "") && p["response"] == h(a1+":"+p["nonce"]+":"+count+h(a2)) && p["realm"] == s.realm && p["algorithm"] == s.algorithm &&
		p["opaque"] == s.opaque && p["uri"] == r.URL.RequestURI()
}

// hashOf returns the function H of an algorithm, in hex.
func hashOf(algorithm string) func(string) string {
	newHash := md5.New
	switch strings.TrimSuffix(algorithm, "-sess") {
	case "SHA-256":
		newHash = sha256.New
	case "SHA-512-256":
		newHash = sha512.New512_256
	}
	return func(text string) string {
		h := newHash()
		_, _ = io.WriteString(h, text)
		return hex.EncodeToString(h.Sum(nil))
	}
}

// quoted returns text as a quoted-string.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// read returns the parameters of a header of Digest, or nil.
func read(header string) map[string]string {
	rest, found := strings.CutPrefix(header, "Digest ")
	if !found {
		return nil
	}
	parameters := map[string]string{}
	for rest != "" {
		name, tail, _ := strings.Cut(rest, "=")
		value := ""
		if strings.HasPrefix(tail, `"`) {
			i := 1
			for ; i < len(tail) && tail[i] != '"'; i++ {
				if tail[i] == '\\' {
					i++
				}
				value += tail[i : i+1]
			}
			rest = strings.TrimPrefix(tail[i+1:], ", ")
		} else {
			value, rest, _ = strings.Cut(tail, ", ")
		}
		parameters[name] = value
	}
	return parameters
}
