package sdk

import (
	"errors"
	"strconv"
	"time"
)

// TokenRequest is a request to a token endpoint, RFC 6749 section 3.2.
type TokenRequest struct {
	// URL is the rendered value of a configuration field of kind [URL], exactly as [Call.Config] returned it.
	URL string
	// Form has the fields of the body, in order.
	Form []Pair
	// Headers are added to the request, such as Authorization: Basic. The host sets Content-Type, and Accept unless it is
	// here.
	Headers []Pair
	// Extra names further members of the answer to return with [Token.Extra], such as instance_url. They must be strings.
	Extra []string
}

// Token is the successful answer of a token endpoint, RFC 6749 section 5.1.
type Token struct {
	// AccessToken is a sealed value with the sinks [ToHeader] and [ToQuery].
	AccessToken string
	// TokenType is a registered name in lower case, "other", or "" if the answer does not include a type.
	TokenType string
	// ExpiresIn is the lifetime of the token. It is 0 if the answer does not include one from 0 to 2³¹−1 seconds.
	ExpiresIn time.Duration
	// Scope is a sealed value with the sinks [ToHeader], [ToQuery] and [ToToken].
	Scope string
	// extra has the members that [TokenRequest].Extra names, as a JSON object.
	extra string
}

// Extra returns a member of the answer that [TokenRequest].Extra names, as a sealed value with the sinks of Scope. It returns
// "" if the answer does not include it.
func (t Token) Extra(name string) (member string) {
	_ = EachMember(t.extra, func(n, value string) error {
		if n == name {
			member = text(value)
		}
		return nil
	})
	return member
}

// RequestToken requests a token from a token endpoint. It returns an error if the status is not 2xx. The error has the
// status and a registered error code, and nothing else that the endpoint wrote. It needs [UsesToken].
func (c *Call) RequestToken(r TokenRequest) (Token, error) {
	var t Token
	status, code := 0, ""
	err := EachMember(string(c.env.TokenRequest(r.document())), func(name, value string) error {
		switch name {
		case "status":
			status = int(integer(value))
		case "access_token":
			t.AccessToken = text(value)
		case "token_type":
			t.TokenType = text(value)
		case "expires_in":
			t.ExpiresIn = time.Duration(integer(value)) * time.Second
		case "scope":
			t.Scope = text(value)
		case "error":
			code = text(value)
		case "extra":
			t.extra = value
		}
		return nil
	})
	if err != nil {
		return Token{}, err
	}
	if status < 200 || status > 299 {
		message := "the token endpoint answered " + strconv.Itoa(status)
		if code != "" {
			message += " (" + code + ")"
		}
		return Token{}, errors.New(message)
	}
	return t, nil
}

// Bearer returns a mutation that sends the token in the Authorization header. It returns an error if the token has a type
// other than bearer. The type is case-insensitive (RFC 6749 section 7.1), and the endpoint may leave it out.
func (t Token) Bearer() (Mutation, error) {
	if t.TokenType != "" && t.TokenType != "bearer" {
		return Mutation{}, errors.New("the token endpoint gave a token of another type than bearer")
	}
	return Bearer(t.AccessToken), nil
}

func (r TokenRequest) document() []byte {
	var o Members
	o.String("url", r.URL)
	o.pairs("form", r.Form)
	o.pairs("headers", r.Headers)
	o.names("extra", r.Extra)
	return []byte(o.JSON())
}

// Exchange is a request to a URL of the configuration, with any body. [TokenRequest] is simpler if the endpoint is one of
// OAuth.
type Exchange struct {
	// URL is the rendered value of a configuration field of kind [URL], exactly as [Call.Config] returned it.
	URL string
	// Path has segments that are appended to the path of the URL.
	Path []string
	// Query parameters are appended to those of the URL.
	Query []Pair
	// Method is GET, POST, PUT, PATCH or DELETE. If it is empty, it is POST.
	Method string
	// Headers are added to the request. The host sets Content-Type, and Accept unless it is here.
	Headers []Pair
	// Form has the fields of the body, in order.
	Form []Pair
	// JSON is the body, as JSON. Its strings may hold sealed values. It excludes Form.
	JSON string
	// Answers are the names of the answers to return, of [Description].Answers. If it is empty, all are returned.
	Answers []string
}

// Answers are parts of an answer, by the names of the description. Only those that were found are there.
type Answers map[string]string

// Time returns the answer of a name, an integer or a time in Unix seconds, and 0 if it was not found.
func (a Answers) Time(name string) int64 { return integer(a[name]) }

// Exchange sends a request and returns the status and the parts of the answer that the description lists. It needs
// [UsesToken].
func (c *Call) Exchange(e Exchange) (status int, answers Answers) {
	var o Members
	o.String("url", e.URL)
	o.names("path", e.Path)
	o.pairs("query", e.Query)
	o.text("method", e.Method)
	o.pairs("headers", e.Headers)
	o.pairs("form", e.Form)
	if e.JSON != "" {
		o.Raw("json", e.JSON)
	}
	o.names("answers", e.Answers)
	reply := answersOf(c.env.Exchange([]byte(o.JSON())))
	return reply.Status, reply.Answers
}

// ExchangeOK is like [Call.Exchange], and returns an error unless the status is 2xx. The error has who and the status: "the token endpoint
// answered 403".
func (c *Call) ExchangeOK(who string, e Exchange) (Answers, error) {
	status, answers := c.Exchange(e)
	if status < 200 || status > 299 {
		return nil, errors.New(who + " answered " + strconv.Itoa(status))
	}
	return answers, nil
}

// answersOf returns the reply of exchange or challenge. That of exchange has fewer members.
func answersOf(reply []byte) Challenged {
	r := Challenged{Answers: Answers{}}
	_ = EachMember(string(reply), func(name, value string) error {
		switch name {
		case "status":
			r.Status = int(integer(value))
		case "count":
			r.Count = integer(value)
		case "clock_change":
			r.ClockChange = integer(value)
		case "answers":
			return EachMember(value, func(name, value string) error {
				r.Answers[name] = text(value)
				return nil
			})
		}
		return nil
	})
	return r
}

// Challenged has the parts of the API's answers that a plugin gets.
type Challenged struct {
	// Status is the status of the API's answer to this request, if the call runs because of it. Otherwise it is 0.
	Status int
	// Answers has the answers that were found in it, and those of earlier answers that are kept.
	Answers Answers
	// Count is the number of calls so far that got the kept answers, from 1. It is 0 if there are none.
	Count int64
	// ClockChange is the number of seconds by which [Call.ClockOffset] has changed since the first attempt called it. It is 0 if
	// there is no Status.
	ClockChange int64
}

// Challenge returns what the plugin knows from answers of the API, see [Description].Challenge. It must be called before
// [Call.Request], [Call.Body] and [Call.BodyForm].
//
// If Status is not 0 and the first attempt read its request, this call may use the answer for its own request only. If it then
// drops or stores an entry of the cache, reads one that the first attempt did not read, or requests a token, it begins anew,
// and Challenge returns Status 0. So decide by Status, and call [Call.Drop], before you read anything else.
//
// An answer with Keep may be one of an earlier request: after a 401 without a nonce, Answers holds the nonce that was kept. To
// see what this request's answer has, name the place a second time without Keep.
func (c *Call) Challenge() Challenged { return answersOf(c.env.Challenge()) }

// margin is the time before the end of a token in which it is not used: a request takes time, and clocks differ.
const margin = 60 * time.Second

// CachedToken returns the token that is cached under a key. If there is none, it calls issue for a new one, and caches that as
// [Call.CacheToken] does. It needs [UsesCache].
func (c *Call) CachedToken(key string, issue func(c *Call) (token string, lifetime time.Duration, err error)) (string, error) {
	if token, ok := c.Cached(key); ok {
		return token, nil
	}
	token, lifetime, err := issue(c)
	if err != nil {
		return "", err
	}
	c.CacheToken(key, token, lifetime)
	return token, nil
}

// CacheToken stores a token until a minute before it ends. If its lifetime is not longer, or not known and so 0, it stores nothing and
// logs a warning. It needs [UsesCache].
func (c *Call) CacheToken(key, token string, lifetime time.Duration) {
	if lifetime > margin {
		c.Cache(key, token, lifetime-margin)
	} else {
		c.Warn("the token is not cached: it has no lifetime above 60 seconds")
	}
}

// Lifetime returns how long what has been answered is valid. The answer expires_in says so, an [AnswerInteger] of seconds, or else
// expires_at, an [AnswerTime] by the clock of the API. If neither was found, it returns usual.
func (c *Call) Lifetime(a Answers, usual time.Duration) time.Duration {
	switch {
	case a["expires_in"] != "":
		return time.Duration(a.Time("expires_in")) * time.Second
	case a["expires_at"] != "":
		lifetime := a.Time("expires_at") - c.Now()
		if offset := c.ClockOffset(); lifetime > offset { // a new token is not over: the host's clock was set right since it was learnt
			lifetime -= offset
		}
		return time.Duration(min(lifetime, 1<<31)) * time.Second
	}
	return usual
}
