package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A Record is one use of a credential.
type Record struct {
	// Time is the time at which the use began.
	Time time.Time
	// Use says what the credential was used for, such as request.
	Use string
	// RequestID is the X-Request-Id, or "".
	RequestID string
	// Tenant and User are the IDs of the user, or "".
	Tenant, User string
	// Subject says which credential it was. It may be nil.
	Subject *Subject
	// Origin is the origin to which the credential was sent, or was to be sent.
	Origin string
	// Method, Pattern, Status, UpstreamStatus, Problem and Stage are those of the event of a gateway. Those that are zero are left out.
	Method, Pattern        string
	Status, UpstreamStatus int
	Problem, Stage         string
	// Sent is the number of times that the request was sent to the API.
	Sent int
	// TokenRequests is the number of requests to a token endpoint, and KeyRequests that of uses of keys of a store of keys.
	TokenRequests, KeyRequests int
	// Who is the operator of an act, and Address that of the peer. Act is a verb, Target its object, and Outcome its result, or "" before it is known.
	// They are "" for a use of a credential.
	Who, Address, Act, Target, Outcome string
}

// A Subject is the members of a line that are the same for all uses of a connector. [NewSubject] makes one.
type Subject struct{ text []byte }

// NewSubject returns the subject of a connector. secrets has names only, and sha256 is the digest of the plugin.
func NewSubject(connector, authType, plugin, sha256 string, secrets []string) *Subject {
	const maxNames = 16 << 10 // the length of the names of secrets after which a line has the number of further ones, so that it can be read
	text := appendMember(nil, "connector", connector)
	text = appendMember(text, "type", authType)
	text = appendMember(text, "plugin", plugin)
	text = appendMember(text, "plugin_sha256", sha256)
	text = append(text, `,"secrets":[`...)
	limit, remaining := len(text)+maxNames, 0
	for i, name := range secrets {
		if len(text)+len(name) > limit {
			remaining = len(secrets) - i
			break
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = appendText(text, name)
	}
	return &Subject{appendNumber(append(text, ']'), "more_secrets", remaining)}
}

// appendRecord appends the members of a record but the number and the hash of its line. Each begins with a comma.
func appendRecord(b []byte, node string, r *Record) []byte {
	b = appendBeginning(b, r.Time, r.Use, node)
	b = appendMember(b, "request_id", r.RequestID)
	b = appendMember(b, "tenant", clip(r.Tenant))
	b = appendMember(b, "user", clip(r.User))
	if r.Subject != nil {
		b = append(b, r.Subject.text...)
	}
	b = appendMember(b, "origin", r.Origin)
	b = appendMember(b, "method", r.Method)
	b = appendMember(b, "pattern", r.Pattern)
	b = appendNumber(b, "status", r.Status)
	b = appendNumber(b, "upstream_status", r.UpstreamStatus)
	b = appendMember(b, "problem", r.Problem)
	b = appendMember(b, "stage", r.Stage)
	b = appendNumber(b, "sent", r.Sent)
	b = appendNumber(b, "token_requests", r.TokenRequests)
	b = appendNumber(b, "key_requests", r.KeyRequests)
	for _, m := range [][2]string{{"who", r.Who}, {"address", r.Address}, {"act", r.Act}, {"target", r.Target}, {"outcome", r.Outcome}} {
		b = appendMember(b, m[0], clip(m[1]))
	}
	return b
}

func appendBeginning(b []byte, t time.Time, use, node string) []byte {
	b = append(b, `,"time":"`...)
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, '"')
	b = appendMember(b, "use", use)
	return appendMember(b, "node", node)
}

// appendMember appends a comma and a member, unless its value is empty.
func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendText(b, value)
}

// appendNumber appends a comma and a member, unless its value is 0.
func appendNumber(b []byte, name string, value int) []byte {
	if value == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, int64(value), 10)
}

// appendText appends a text in JSON. It escapes what is not printable, such as marks that reverse a line.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, _ := json.Marshal(text) // encoding a text cannot fail
			for _, r := range string(escaped) {
				switch high, low := utf16.EncodeRune(r); {
				case unicode.IsPrint(r):
					b = utf8.AppendRune(b, r)
				case r > 0xffff:
					b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
				default:
					b = fmt.Appendf(b, `\u%04x`, r)
				}
			}
			return b
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

const maxID = 256 // bytes of an ID in a line

// clip returns the beginning of an ID, up to maxID bytes. An ellipsis at the end means that the ID is longer.
func clip(id string) string {
	if len(id) > maxID {
		id = strings.ToValidUTF8(id[:maxID], "") + "…"
	}
	return id
}

// A link is a place in the chain: the number of a line and its hash. The zero link is before the first line.
type link struct {
	n    uint64
	hash [sha256.Size]byte
}

func (l *link) text() string { return hex.EncodeToString(l.hash[:]) }

const (
	beginNumber = `{"n":`
	beginHash   = `,"hash":"`
	endHash     = `"}`
	// lengthOfHash is the length of what follows the hashed part of a line, without the line feed.
	lengthOfHash = len(beginHash) + 2*sha256.Size + len(endHash)
)

// appendLine appends the next line of the chain. Its hash is over the hash before and its bytes up to the hash.
func (l *link) appendLine(b, members []byte) []byte {
	begin := len(b)
	l.n++
	b = append(b, beginNumber...)
	b = strconv.AppendUint(b, l.n, 10)
	b = append(b, members...)
	l.hash = hashOf(&l.hash, b[begin:])
	b = append(b, beginHash...)
	b = hex.AppendEncode(b, l.hash[:])
	return append(append(b, endHash...), '\n')
}

// hashOf returns the hash of the line with this text after the line with the hash previous.
func hashOf(previous *[sha256.Size]byte, text []byte) (sum [sha256.Size]byte) {
	digest := sha256.New()
	_, _ = digest.Write(previous[:])
	_, _ = digest.Write(text)
	digest.Sum(sum[:0])
	return sum
}
