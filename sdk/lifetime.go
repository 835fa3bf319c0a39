package sdk

import "time"

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
// expires_at, an [AnswerTime]. If neither was found, it returns usual.
func (c *Call) Lifetime(a Answers, usual time.Duration) time.Duration {
	switch {
	case a["expires_in"] != "":
		return time.Duration(a.Time("expires_in")) * time.Second
	case a["expires_at"] != "":
		return time.Duration(min(a.Time("expires_at")-c.Now(), 1<<31)) * time.Second
	}
	return usual
}
