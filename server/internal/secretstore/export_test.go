package secretstore

import (
	"context"
	"sync"
	"testing/synctest"

	"github.com/keywright/keywright/host"
)

// ParseSecrets is exported for the fuzz test.
var ParseSecrets = parseSecrets

// Refused returns the tokens that callers get when all ask for a replacement of a refused token at the same time. There is one
// caller for each of tokens, in this order. The last token is the one in use.
func Refused(ctx context.Context, store host.Secrets, tokens ...string) []string {
	v := store.(*VaultStore)
	v.session.Store(&session{token: tokens[len(tokens)-1]})
	got := make([]string, len(tokens))
	_ = v.loginLock.Acquire(ctx, 1) // no call continues until all have begun
	var all sync.WaitGroup
	for i, token := range tokens {
		all.Go(func() {
			if s, err := v.replaceRefused(ctx, &session{token: token}); err == nil {
				got[i] = s.token
			}
		})
		synctest.Wait()
	}
	v.loginLock.Release(1)
	all.Wait()
	return got
}
