package sdk

import (
	"errors"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/contract"
)

// store is an Env with a cache and a clock, and with an endpoint that answers with a document.
type store struct {
	literals
	cached map[string]string
	ttl    int64
	warned int
	answer string
	offset int64
}

func (s *store) CacheGet(key string) (value string, ok bool) {
	value, ok = s.cached[key]
	return value, ok
}

func (s *store) CacheSet(key, value string, ttl int64) { s.cached[key], s.ttl = value, ttl }

func (s *store) Log(contract.Level, string) { s.warned++ }

func (s *store) TimeNow() int64 { return 1700000000 }

func (s *store) ClockOffset() int64 { return s.offset }

func (s *store) Exchange([]byte) []byte { return []byte(s.answer) }

// A token is issued once, and cached until a minute before its end. One that lasts no longer is issued each time, with a warning.
func TestCachedToken(t *testing.T) {
	for lifetime, want := range map[time.Duration]struct{ issued, warned int }{
		0: {2, 2}, time.Minute: {2, 2}, 61 * time.Second: {1, 0}, time.Hour: {1, 0},
	} {
		s := &store{cached: map[string]string{}}
		c, issued := &Call{s}, 0
		for range 2 {
			token, err := c.CachedToken("token", func(*Call) (string, time.Duration, error) {
				issued++
				return "t", lifetime, nil
			})
			if token != "t" || err != nil {
				t.Errorf("%s: token = %q, err = %v", lifetime, token, err)
			}
		}
		if issued != want.issued || s.warned != want.warned || want.issued == 1 && s.ttl != int64(lifetime/time.Second)-60 {
			t.Errorf("%s: issued %d times, %d warnings, cached for %d s", lifetime, issued, s.warned, s.ttl)
		}
	}
	s, failure := &store{cached: map[string]string{}}, errors.New("no")
	c := &Call{s}
	if token, err := c.CachedToken("token", func(*Call) (string, time.Duration, error) { return "t", time.Hour, failure }); token != "" || !errors.Is(err, failure) || len(s.cached) != 0 {
		t.Errorf("a failure is %q, %v, with %v in the cache", token, err, s.cached)
	}
}

// The lifetime is that of the answer, in seconds or until a time by the API's clock, or else the usual one.
func TestLifetime(t *testing.T) {
	for name, test := range map[string]struct {
		answers Answers
		offset  int64
		want    time.Duration
	}{
		"seconds":        {Answers{"expires_in": "300", "expires_at": "1700009999"}, 0, 300 * time.Second},
		"none":           {Answers{"expires_in": "0"}, 0, 0},
		"a time":         {Answers{"expires_at": "1700000060"}, 0, time.Minute},
		"a time gone by": {Answers{"expires_at": "1699999990"}, 0, -10 * time.Second},
		"clock ahead":    {Answers{"expires_at": "1700000900"}, 600, 5 * time.Minute},
		"clock behind":   {Answers{"expires_at": "1699999700"}, -600, 5 * time.Minute},
		"stale offset":   {Answers{"expires_at": "1700000300"}, 600, 5 * time.Minute},
		"the year 9999":  {Answers{"expires_at": "253402300799"}, 0, (1 << 31) * time.Second},
		"unknown":        {nil, 0, time.Hour},
	} {
		c := &Call{&store{offset: test.offset}}
		if got := c.Lifetime(test.answers, time.Hour); got != test.want {
			t.Errorf("%s: %s, not %s", name, got, test.want)
		}
	}
}

// ExchangeOK fails unless the status is 2xx, and says who answered. First returns the first field with a value.
func TestExchangeOKAndFirst(t *testing.T) {
	s := &store{literals: literals{fields: map[string]string{"empty": "", "b": "2", "c": "3"}}}
	c := &Call{s}
	for _, test := range []struct{ status, message string }{{"199", "the door answered 199"}, {"200", ""}, {"299", ""}, {"300", "the door answered 300"}} {
		s.answer = `{"status":` + test.status + `,"answers":{"a":"1"}}`
		answers, err := c.ExchangeOK("the door", Exchange{})
		if test.message == "" && (err != nil || answers["a"] != "1") || test.message != "" && (err == nil || err.Error() != test.message || answers != nil) {
			t.Errorf("%s: answers = %v, err = %v", test.status, answers, err)
		}
	}
	if got := c.First("absent", "empty", "b", "c"); got != "2" {
		t.Errorf("the first is %q", got)
	}
	if got := c.First("absent"); got != "" {
		t.Errorf("the first of none is %q", got)
	}
}
