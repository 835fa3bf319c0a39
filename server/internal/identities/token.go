package identities

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/internal/jws"
)

// token is a token and its claims, which nobody has verified.
type token struct {
	text            string
	issuer, subject string
	audiences       []string
	// begins is zero if the token does not say when.
	begins, expires time.Time
	// fetched is the time at which it was got.
	fetched time.Time
}

// parse reads a JWT. Its errors quote nothing of it.
func parse(text string, now time.Time) (*token, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxToken {
		return nil, errors.New("it has more than 16 KiB")
	}
	header, claims, err := jws.Decode(text)
	if err != nil {
		return nil, errors.New("it is no JWT of three parts")
	}
	algorithm, _ := header["alg"].(string)
	t := &token{text: text, fetched: now, audiences: texts(claims["aud"])}
	t.issuer, _ = claims["iss"].(string)
	t.subject, _ = claims["sub"].(string)
	var ends bool
	t.expires, ends = moment(claims["exp"])
	t.begins, _ = moment(claims["nbf"])
	switch {
	case algorithm == "" || strings.EqualFold(algorithm, "none") || strings.HasSuffix(text, "."):
		return nil, errors.New("it is not signed")
	case jws.Symmetric(algorithm):
		return nil, errors.New("it is signed with a shared secret")
	case t.subject == "":
		return nil, errors.New("it has no subject (sub)")
	case !ends:
		return nil, errors.New("it has no end (exp)")
	}
	return t, nil
}

// texts returns the texts of a claim that is one, or a list of them. Anything else in a list is a text that no audience is.
func texts(claim any) (all []string) {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		for _, item := range claim {
			text, _ := item.(string)
			all = append(all, text)
		}
	}
	return all
}

// moment returns the time of a claim, RFC 7519 section 2 (NumericDate).
func moment(claim any) (time.Time, bool) {
	number, _ := claim.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 1 || seconds > 1<<40 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}
