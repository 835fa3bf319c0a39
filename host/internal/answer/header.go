package answer

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Offer is a challenge of WWW-Authenticate (RFC 9110 section 11.6.1).
type Offer struct {
	// Scheme is the authentication scheme, in lower case.
	Scheme string
	// Parameters has the parameters, by their names in lower case. Of several with one name, the first counts.
	Parameters map[string]string
}

// Offers returns the challenges in the values of WWW-Authenticate. A value may have several, and a challenge ends where the next scheme
// begins: with an element of the list that is a token, alone or in front of something other than "=". Malformed text is skipped.
func Offers(values []string) (offers []Offer) {
	for _, value := range values {
		for _, item := range splitList(value) {
			name, rest := cutToken(item)
			if name != "" && !strings.HasPrefix(rest, "=") {
				if len(offers) == maxOffers {
					return offers
				}
				offers = append(offers, Offer{strings.ToLower(name), map[string]string{}})
				item = rest
			}
			if len(offers) > 0 {
				offers[len(offers)-1].add(item)
			}
		}
	}
	return offers
}

// cutToken returns the token (RFC 9110 section 5.6.2) at the beginning of text, and what follows it and white space. The token
// is empty if there is none, or if it does not end at white space, "=" or the end.
func cutToken(text string) (token, rest string) {
	end := 0
	for end < len(text) && httpguts.IsTokenRune(rune(text[end])) {
		end++
	}
	rest = strings.TrimLeft(text[end:], space)
	if end+len(rest) == len(text) && rest != "" && rest[0] != '=' {
		return "", text
	}
	return text[:end], rest
}

// space is the white space between the parts of a header.
const space = " \t"

// Parameters returns the parameters in a header that is a list of them, such as Authentication-Info.
func Parameters(value string) map[string]string {
	all := Offer{Parameters: map[string]string{}}
	for _, item := range splitList(value) {
		all.add(item)
	}
	return all.Parameters
}

// add adds a parameter, such as nonce="abc". There may be white space around the "=". The padding of a token68 is no parameter.
func (o *Offer) add(parameter string) {
	name, rest := cutToken(parameter)
	value, found := strings.CutPrefix(rest, "=")
	value = strings.Trim(value, space)
	name = strings.ToLower(name)
	if _, there := o.Parameters[name]; !found || there || name == "" || value == "" || value[0] == '=' {
		return
	}
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		value = unquote(quoted)
	}
	o.Parameters[name] = value
}

// unquote returns the text of a quoted-string (RFC 9110 section 5.6.4) after its first quote.
func unquote(quoted string) string {
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch quoted[i] {
		case '"':
			return b.String()
		case '\\':
			if i++; i == len(quoted) {
				return b.String()
			}
		}
		b.WriteByte(quoted[i])
	}
	return b.String()
}

// splitList returns the elements of a list (RFC 9110 section 5.6.1) without those that are empty. Commas in quotes do not separate.
func splitList(value string) (items []string) {
	quoted, from := false, 0
	for i := 0; i <= len(value); i++ {
		switch {
		case i == len(value) || value[i] == ',' && !quoted:
			if item := strings.Trim(value[from:i], space); item != "" {
				items = append(items, item)
			}
			from = i + 1
		case value[i] == '"':
			quoted = !quoted
		case value[i] == '\\' && quoted && i+1 < len(value):
			i++
		}
	}
	return items
}

// Offset is the time that the clocks of an API and of its token endpoint are ahead of the host's. Where they differ, it is that of
// the one that refused a request last. It is safe for concurrent use.
type Offset struct {
	seconds atomic.Int64

	mu sync.Mutex
	// tenants has the offsets of tenants with servers of their own.
	tenants map[string]*Offset
}

// maxTenants limits the tenants whose offsets are known. Beyond it, all of them are learnt again.
const maxTenants = 4096

// TenantOffset returns the offset of a tenant that has servers of its own.
func (o *Offset) TenantOffset(tenant string) *Offset {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.tenants[tenant]
	if one == nil {
		if o.tenants == nil || len(o.tenants) == maxTenants {
			o.tenants = map[string]*Offset{}
		}
		one = &Offset{}
		o.tenants[tenant] = one
	}
	return one
}

// Seconds returns the offset in seconds.
func (o *Offset) Seconds() int64 { return o.seconds.Load() }

// Learn sets the offset by the Date of an answer that refused a request with 400, 401 or 403. An offset of a few
// seconds is that of the network, and counts as none. An offset beyond maxOffset is not believed, and one that differs by a few
// seconds is the same. The Date of an answer with Age is that of a cache (RFC 9111 section 5.1).
func (o *Offset) Learn(status int, header http.Header, now time.Time) {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return
	}
	if offset, ok := OffsetOf(header, now); ok && -maxOffset <= offset && offset <= maxOffset && !near(offset, o.seconds.Load()) {
		o.seconds.Store(offset)
	}
}

// OffsetOf returns the seconds by which the clock of a server is ahead of now, by the header of an answer, and reports whether the
// header says so. A few seconds count as 0.
func OffsetOf(header http.Header, now time.Time) (seconds int64, ok bool) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil || header.Get("Age") != "" {
		return 0, false
	}
	if seconds = int64(date.Sub(now) / time.Second); near(seconds, 0) {
		seconds = 0
	}
	return seconds, true
}

// near reports whether two offsets count as the same one.
func near(a, b int64) bool { return a-b < leastOffset && b-a < leastOffset }

const (
	// leastOffset is the least offset that counts, in seconds.
	leastOffset = 10
	// maxOffset is the greatest offset, in seconds. A clock that is set in another time zone is off by less. An API that could
	// set it by years would get signatures that are valid long after their key has been replaced.
	maxOffset = 24 * 60 * 60
)

// RetryAfter returns the wait that Retry-After asks for (RFC 9110 section 10.2.3), in seconds or as a date. It returns
// 0 if there is no valid one, or if the date is past.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // seconds is 2³¹-1 for a number out of range
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
